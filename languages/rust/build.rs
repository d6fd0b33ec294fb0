// SPDX-License-Identifier: Apache-2.0
//! Where librubato is: RUBATO_LIB_DIR, else what pkg-config says, else where the linker looks. Cargo
//! gives RUBATO_LIB_DIR to the build scripts of crates that depend on this one as DEP_RUBATO_LIB_DIR.
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=RUBATO_LIB_DIR");
    if std::env::var_os("CARGO_FEATURE_EXECUTOR").is_none() {
        return;
    }
    if let Ok(folder) = std::env::var("RUBATO_LIB_DIR") {
        println!("cargo:rustc-link-search=native={folder}");
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
        println!("cargo:lib_dir={folder}");
    } else if let Ok(said) = Command::new("pkg-config").args(["--libs-only-L", "rubato"]).output() {
        for word in String::from_utf8_lossy(&said.stdout).split_whitespace() {
            println!("cargo:rustc-link-search=native={}", word.trim_start_matches("-L"));
        }
    }
    println!("cargo:rustc-link-lib=rubato");
}
