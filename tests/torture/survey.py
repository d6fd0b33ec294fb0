#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the survey of the C library: survey.py COMPILER OUTPUT.c

Reads the prototypes of the installed headers (gcc's -aux-info) and the symbols that the C library
and libm export, and writes a caller for each function whose arguments can be made up, except those
of EXCLUDED. A type of argument or result that is not in the tables leaves its functions out.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

HEADERS = """arpa/inet.h byteswap.h complex.h ctype.h fenv.h fnmatch.h inttypes.h langinfo.h
libgen.h libintl.h locale.h math.h netinet/ether.h stdio.h stdio_ext.h stdlib.h string.h strings.h
time.h uchar.h wchar.h wctype.h unistd.h sys/stat.h sys/time.h netdb.h pwd.h grp.h""".split()

# What would end, block or change the process, or gives what changes by itself or is kept for all
# threads together; and what takes memory for its own or gives it away.
EXCLUDED = re.compile("|".join(f"(?:{name})" for name in """
_?exit _Exit quick_exit abort atexit at_quick_exit on_exit free realloc reallocarray system putenv
setenv unsetenv clearenv .*temp.* tmp.* s?rand(om)?(_r)? initstate.* setstate.* .*rand48(_r)?
lcong48.* seed48.* arc4random.* posix_openpt grantpt unlockpt ptsname.* getpt realpath
canonicalize.* getsubopt setkey malloc calloc valloc pvalloc aligned_alloc memalign
posix_memalign l64a q?[ef]cvt q?gcvt getloadavg strtok strfry wcsdup str(n)?dup __strdup __strndup
mktime_z f?close.* f?re?open.* fopen.*
set(v|line)?buf(fer)? p(open|close) gets getchar.* putchar.* puts
getwchar.* putwchar.* perror remove rename.* unlink.* fdopen.* ctermid cuserid f?(try|un)?lockfile
flockfile getw putw getline getdelim __getdelim .*open_w?memstream fcloseall fmemopen fopencookie
fflush(_unlocked)? _flushlbf __fsetlocking __fpurge
time clock.* nanosleep stime timer_.* getdate.* timespec_get.* adjtime.* setitimer getitimer
(set|get)timeofday (f|l)?utimes futimesat asctime ctime localtime gmtime
setlocale newlocale freelocale uselocale duplocale textdomain bindtextdomain bind_textdomain_codeset
fe(enable|disable|test)except fegetexceptflag fegetenv fegetmode
fe(set|update)(env|mode|round|except).* feholdexcept
(get|set|end)(pw|gr|net|host|proto|serv|rpc|alias)ent.* [sf]?get(pw|gr|net|host|proto|serv|rpc).*
(un)?getaddrinfo.* gai_.* freeaddrinfo setnetgrent endnetgrent innetgr rcmd.* r?r(user|exec).*
h?error .*err(or)?_string .*hstrerror herror putpwent putgrent initgroups getgrouplist setgroups
rresvport.* iruserok.* ruserok.* rexec.* getnetgrent.* ether_.*
mkdir.* mkfifo.* mknod.* chmod fchmod.* lchmod umask getumask
ttyname getpass getlogin.* .*drand48.* strerror_l __.* _IO_.* _tolower_l _toupper_l scalbl?n?_undef
signgam matherr ftw.* select_.* getentropy rpmatch inet_net.* wcscoll_undef basename dirname
rawmemchr strfrom[dfl].*
fork vfork pipe.* dup.* read write pread.* pwrite.* lseek.* exec.* fexecve nice pause alarm ualarm
u?sleep chown fchown.* lchown chdir fchdir chroot acct truncate.* ftruncate.* sync.* fsync
fdatasync fallocate.* lockf.* s?brk daemon link.* symlink.* rmdir set.*id set.* tc.* vhangup
revoke profil syscall swab_undef copy_file_range getdents.* closefrom close_range getcwd getwd
get_current_dir_name gethostid sethost.* gettid getpgid getpgrp getsid getp?pid getresuid getresgid
ctermid crypt encrypt getusershell endusershell isatty _Fork confstr_undef f?pathconf access_undef
eaccess euidaccess faccessat getgroups group_member getdtablesize getpagesize ttyslot readlinkat
f?stat.* lstat.* statx utimensat futimens socketpair
""".split()))

COUNT = "(size_t)survey_draw(s, kCountMost)"
CHARACTER = "(int)survey_draw(s, 128)"
# By type: the expression that makes an argument.
MAKERS = {
    "int": CHARACTER,
    "unsigned int": "(unsigned)survey_draw(s, 128)",
    "char": "(char)(97 + survey_draw(s, 26))",
    "long int": "(long)survey_draw(s, 1000000)",
    "long long int": "(long long)survey_draw(s, 1000000)",
    "long unsigned int": COUNT,
    "long long unsigned int": "survey_draw(s, 1000000)",
    "intmax_t": "(intmax_t)survey_draw(s, 1000000)",
    "uintmax_t": "survey_draw(s, 1000000)",
    "size_t": COUNT,
    "ssize_t": "(ssize_t)(2 * survey_draw(s, 30))",
    "socklen_t": "64",
    "wchar_t": "(wchar_t)survey_draw(s, 128)",
    "wint_t": "(wint_t)survey_draw(s, 128)",
    "char16_t": "(char16_t)survey_draw(s, 128)",
    "char32_t": "(char32_t)survey_draw(s, 128)",
    "uint16_t": "(uint16_t)survey_draw(s, 65536)",
    "uint32_t": "(uint32_t)survey_draw(s, 100000)",
    "in_addr_t": "(uint32_t)survey_draw(s, 100000)",
    "time_t": "(time_t)survey_draw(s, 2000000000)",
    "nl_item": "(nl_item)(0x20000 + survey_draw(s, 40))",
    "wctype_t": 'wctype("alpha")',
    "wctrans_t": 'wctrans("tolower")',
    "locale_t": "survey_locale()",
    "const char *": "survey_text(s)",
    "char *": "survey_text(s)",
    "char **": "survey_end(s)",
    "const char **": "(const char**)survey_end(s)",
    "const wchar_t *": "survey_wide(s)",
    "wchar_t *": "survey_wide(s)",
    "wchar_t **": "(wchar_t**)survey_end(s)",
    "const void *": "survey_text(s)",
    "void *": "survey_buffer(s)",
    "const char16_t *": "survey_buffer(s)",
    "char16_t *": "survey_buffer(s)",
    "const char32_t *": "survey_buffer(s)",
    "char32_t *": "survey_buffer(s)",
    "struct tm *": "survey_tm(s)",
    "const struct tm *": "survey_tm(s)",
    "const time_t *": "survey_buffer(s)",
    "FILE *": "survey_stream(s)",
    "mbstate_t *": "survey_buffer(s)",
    "const mbstate_t *": "survey_buffer(s)",
    "struct in_addr *": "survey_buffer(s)",
    "struct timezone *": "NULL",
}
REALS = ["float", "double", "long double", "_Float32", "_Float64", "_Float128", "_Float32x",
         "_Float64x"]
for real in REALS:
    MAKERS[real] = f"({real})survey_real(s)"
    MAKERS[f"_Complex {real}"] = f"({real})survey_real(s) + ({real})survey_real(s) * I"
    MAKERS[f"{real} *"] = MAKERS[f"const {real} *"] = "survey_buffer(s)"
for number in ["int", "unsigned int", "long int", "long long int", "size_t", "long unsigned int"]:
    MAKERS[f"{number} *"] = "survey_buffer(s)"
INTEGERS = {"int", "unsigned int", "char", "long int", "long long int", "long unsigned int",
            "long long unsigned int", "size_t", "ssize_t", "wchar_t", "wint_t", "intmax_t",
            "uintmax_t", "uint16_t", "uint32_t", "in_addr_t", "time_t", "wctype_t", "_Bool"}
# Functions whose int is the base of a number.
BASED = re.compile(r"(str|wcs)to(u?ll?|[iu]max|u?q)(_l)?$")
# Functions of whose result the sign alone is specified: glibc's wcsncmp gives another number near
# the end of a page.
ORDER = re.compile(r"(str|wcs).*(cmp|coll)(_l)?|w?memcmp")
# Functions that give what lies in memory that all threads share, or the address of which counts.
UNTOLD = re.compile(r"(ng|dng|dcng|g|dg|dcg)ettext|strerror.*|strsignal|inet_ntoa|"
                    r"ctime.*")

PROTOTYPE = re.compile(r"^/\* (\S+):\d+:\w+ \*/ extern (.+?)([A-Za-z_]\w*) \((.*)\);$")


def exported(compiler: str) -> set[str]:
    """The functions that libc and libm export by their default version."""
    names = set()
    for library in ("libc.so.6", "libm.so.6"):
        path = subprocess.run([compiler, f"-print-file-name={library}"], capture_output=True,
                              text=True, check=True).stdout.strip()
        symbols = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True,
                                 text=True, check=True).stdout
        names |= set(re.findall(r" [TWi] (\w+)@@", symbols))
    return names


def prototypes(compiler: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "all.c")
        source.write_text(includes())
        listed = pathlib.Path(folder, "listed")
        subprocess.run([compiler, "-fsyntax-only", "-aux-info", str(listed), str(source)],
                       check=True)
        return listed.read_text()


def includes() -> str:
    return "#define _GNU_SOURCE 1\n" + "".join(f"#include <{name}>\n" for name in HEADERS)


def plain(type_name: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"\brestrict\b", "", type_name)).strip()


def caller(result: str, name: str, parameters: list[str]) -> str | None:
    if any(parameter not in MAKERS for parameter in parameters):
        return None
    lines = [f"static void call_{name}(struct SurveyState* s) {{"]
    for i, parameter in enumerate(parameters):
        made = MAKERS[parameter]
        if parameter == "int" and BASED.match(name):
            made = "8 * (int)survey_draw(s, 3)"
        lines.append(f"  {parameter} a{i} = {made};")
    call = f"{name}({', '.join(f'a{i}' for i in range(len(parameters)))})"
    lines.append("  errno = 0;")
    if result == "void" or UNTOLD.fullmatch(name):
        lines.append(f"  (void){call};" if result != "void" else f"  {call};")
    elif ORDER.fullmatch(name):
        lines.append(f"  const {result} order = {call};")
        lines.append("  survey_add(s, (uint64_t)((order > 0) - (order < 0)));")
    elif result in INTEGERS:
        lines.append(f"  survey_add(s, (uint64_t){call});")
    elif result in REALS:
        lines.append(f"  survey_add_real(s, {call});")
    elif result.startswith("_Complex "):
        lines.append(f"  {result} r = {call};")
        lines.append("  survey_add_real(s, (long double)creall(r));")
        lines.append("  survey_add_real(s, (long double)cimagl(r));")
    elif result.endswith("*"):
        lines.append(f"  survey_add_pointer(s, {call});")
    else:
        return None
    return "\n".join(lines + ["}"])


def main() -> int:
    compiler, output = sys.argv[1:]
    there = exported(compiler)
    callers = {}
    for line in prototypes(compiler).splitlines():
        found = PROTOTYPE.match(line)
        if found is None:
            continue
        _, result, name, parameters = found.groups()
        if name in callers or name not in there or EXCLUDED.fullmatch(name):
            continue
        listed = [] if parameters == "void" else [plain(p) for p in parameters.split(",")]
        code = caller(plain(result), name, listed)
        if code is not None:
            callers[name] = code
    names = sorted(callers)
    pathlib.Path(output).write_text("\n".join([
        "// Written by tests/torture/survey.py.", includes(),
        '#include "tests/torture/survey.h"', '#include "tests/torture/survey_makers.h"', "",
        *(callers[name] for name in names),
        "const struct SurveyCaller { const char* name; void (*call)(struct SurveyState*); }",
        "    survey_callers[] = {",
        *(f'  {{"{name}", call_{name}}},' for name in names), "};",
        f"const unsigned survey_callers_count = {len(names)};", ""]))
    print(f"{output}: {len(names)} functions of the C library")
    return 0


if __name__ == "__main__":
    sys.exit(main())
