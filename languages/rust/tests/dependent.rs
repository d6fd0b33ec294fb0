// SPDX-License-Identifier: Apache-2.0
#![cfg(feature = "executor")]
use std::path::Path;
use std::process::Command;

const BUILD: &str = r#"
fn main() {
    if let Ok(folder) = std::env::var("DEP_RUBATO_LIB_DIR") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
"#;
const MAIN: &str = r#"
fn main() {
    let executor = rubato::Executor::new(&Default::default()).unwrap();
    println!("{}", executor.spawn(&Default::default(), || 42).join().unwrap());
}
"#;

#[test]
fn a_program_that_depends_on_the_crate_finds_the_library() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dependent");
    std::fs::create_dir_all(folder.join("src")).unwrap();
    let package = "[package]\nname = \"dependent\"\nversion = \"0.0.0\"\nedition = \"2021\"\n";
    let rubato = format!("rubato = {{ path = {:?} }}\n", env!("CARGO_MANIFEST_DIR"));
    let manifest = format!("{package}[dependencies]\n{rubato}[workspace]\n");
    for (file, text) in [("Cargo.toml", &*manifest), ("build.rs", BUILD), ("src/main.rs", MAIN)] {
        std::fs::write(folder.join(file), text).unwrap();
    }
    let built = Command::new(env!("CARGO"))
        .args(["build", "--offline", "--quiet"])
        .current_dir(&folder)
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .status();
    assert!(built.unwrap().success());
    let program = folder.join("target/debug/dependent");
    let output = Command::new(program).env_remove("LD_LIBRARY_PATH").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "42\n", "{output:?}");
}
