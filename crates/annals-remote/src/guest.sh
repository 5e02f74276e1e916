#!/bin/sh
# The part of Annals inside a sandbox: POSIX sh with the tools of coreutils or busybox.
#
#   sh guest.sh VERB ID ARGUMENT...      arguments on the command line
#   sh guest.sh @VERB ID                 arguments from runs/ID.args, a file that sets them
#
# A call happens once: its folder runs/ID is made by the first request that arrives, and a request that arrives again,
# because the first answer was lost, gets the report of the first. The report is one line on standard output:
#
#   annals ID KIND NUMBER STDOUT_BYTES STDERR_BYTES STDOUT STDERR
#
# STDOUT and STDERR are `=` and base64, or `-` when they are too large for a line and lie in runs/ID/out and runs/ID/err.

base=${0%/*}
verb=$1 id=$2
shift 2
d=$base/runs/$id
inline=8192
unset CDPATH
# Where the report goes, also when a function's own output goes elsewhere.
exec 5>&1
case $verb in @*)
    verb=${verb#@}
    . "$base/runs/$id.args"
    ;;
esac

encoded() {
    if [ "$2" -eq 0 ]; then
        printf '='
    elif [ "$2" -le $inline ] && text=$(base64 <"$1" 2>/dev/null); then
        set -- $text
        IFS=
        printf '=%s' "$*"
    else
        printf '-'
    fi
}

report() {
    out_bytes=0 err_bytes=0
    [ ! -s "$d/out" ] || out_bytes=$(($(wc -c <"$d/out")))
    [ ! -s "$d/err" ] || err_bytes=$(($(wc -c <"$d/err")))
    read -r kind number <"$d/done"
    printf 'annals %s %s %s %s %s %s %s\n' "$id" "$kind" "$number" "$out_bytes" "$err_bytes" \
        "$(encoded "$d/out" "$out_bytes")" "$(encoded "$d/err" "$err_bytes")" >&5
    exit 0
}

finish() {
    printf '%s %s\n' "$1" "$2" >"$d/done"
}

refuse() {
    finish "$1" 0
    report
}

pause() {
    sleep 0.05 2>/dev/null || sleep 1
}

# Kills every process that inherited this call's mark, also those that left its process group and its session. A process
# shows no environment for the moment in which it becomes another program, so nothing found counts only twice in a row.
sweep() {
    rounds=0 empty=0
    while [ $rounds -lt 400 ] && [ $empty -lt 2 ]; do
        found=$(grep -l -s "ANNALS_RUN=$id" /proc/[0-9]*/environ 2>/dev/null)
        for environ in $found; do
            pid=${environ#/proc/}
            kill -9 "${pid%/environ}" 2>/dev/null
        done
        if [ -n "$found" ]; then empty=0; else empty=$((empty + 1)); fi
        rounds=$((rounds + 1))
        [ $rounds -lt 20 ] || pause
    done
}

# Waits for the call that has this ID and reports it. One whose process is gone without a word is lost.
attach() {
    rounds=0
    while [ ! -s "$d/done" ]; do
        if read -r pid 2>/dev/null <"$d/pid"; then
            if ! kill -0 "$pid" 2>/dev/null && [ ! -s "$d/done" ]; then
                sweep
                finish lost 0
            fi
        elif [ $rounds -gt 40 ]; then
            finish lost 0
        fi
        rounds=$((rounds + 1))
        [ -s "$d/done" ] || pause
    done
    report
}

claim() {
    mkdir "$d" 2>/dev/null || attach
    printf '%s\n' $$ >"$d/pid"
}

inside() {
    case $1/ in
    "$root"/*) return 0 ;;
    esac
    return 1
}

enter_workspace() {
    cd -P -- "$1" 2>/dev/null || refuse no_workspace
    root=$PWD
}

# Refuses a link that names a place elsewhere, even one that leads back inside: what /proc/self/cwd is depends on who looks.
check_link() {
    case $1 in
    /*) case $1/ in "$root"/*) ;; *) refuse outside ;; esac ;;
    esac
}

# Goes through the folders of `$1`, part by part, and makes missing ones if `$2` is `make`.
walk() {
    left=$1/
    case $left in
    /*)
        cd "$root" || return 1
        left=${left#"$root"}
        ;;
    esac
    while [ -n "$left" ]; do
        part=${left%%/*} left=${left#*/}
        case $part in '' | .) continue ;; esac
        [ ! -L "./$part" ] || check_link "$(readlink "./$part")"
        if ! cd -P -- "./$part" 2>/dev/null; then
            [ "$2" = make ] || return 1
            mkdir -- "./$part" 2>"$d/err" || [ -d "./$part" ] || refuse failed
            cd -P -- "./$part" 2>>"$d/err" || refuse failed
        fi
        inside "$PWD" || refuse outside
    done
}

# Makes the physical folder of a path the working directory and sets `name` to its last part. A link at the end is
# followed as long as it stays inside.
place() {
    rest=$1 hops=0
    while :; do
        case $rest in
        */*) parent=${rest%/*} name=${rest##*/} ;;
        *) parent=. name=$rest ;;
        esac
        case $name in . | .. | '') parent=$rest name=. ;; esac
        walk "$parent" find || return 1
        [ -L "./$name" ] || return 0
        rest=$(readlink "./$name") || return 1
        check_link "$rest"
        hops=$((hops + 1))
        [ $hops -lt 40 ] || refuse outside
    done
}

# Like place, but makes missing folders and does not follow a link at the end.
place_new() {
    case $1 in
    */*) parent=${1%/*} name=${1##*/} ;;
    *) parent=. name=$1 ;;
    esac
    walk "$parent" make
}

# Bounds what this process and its children may use. A bound that may not be set is one that is lower already.
limit() {
    ulimit -t "$1"
    ulimit -f "$2"
    ulimit -n "$3"
} 2>/dev/null

pump() (
    trap '' TERM
    head -c "$most" <"$d/$1" >"$d/$2"
    : >"$d/$2.end"
    # Full while the command still runs: it writes more than it may.
    [ -e "$d/ended" ] || [ $(($(wc -c <"$d/$2"))) -lt "$most" ] || kill -TERM $$
)

# run MOST LIMITS WORKSPACE CWD STDIN SOURCE PROGRAM ARGUMENT...
# LIMITS is what `ulimit` takes: seconds of processor time, 512-byte blocks of a file, open files, separated by blanks.
# STDIN is `-` for none, `@` for runs/ID.in, or `=` and the text; SOURCE is `-`, `@NAME` for runs/ID.source, or
# `=NAME=TEXT`, and is the program's last argument as a file of that name.
run() {
    claim
    most=$1 limits=$2 workspace=$3 cwd=$4 stdin=$5 source=$6
    shift 6
    case $stdin in
    -) stdin=/dev/null ;;
    @) stdin=$base/runs/$id.in ;;
    =*)
        printf '%s' "${stdin#=}" >"$d/in"
        stdin=$d/in
        ;;
    esac
    case $source in
    @*)
        mv "$base/runs/$id.source" "$d/${source#@}"
        set -- "$@" "$d/${source#@}"
        ;;
    =*)
        source=${source#=}
        printf '%s' "${source#*=}" >"$d/${source%%=*}"
        set -- "$@" "$d/${source%%=*}"
        ;;
    esac
    enter_workspace "$workspace"
    cd -P -- "./$cwd" 2>/dev/null || refuse no_directory
    inside "$PWD" || refuse outside
    command -v "$1" >/dev/null 2>&1 || refuse no_program
    mkfifo "$d/o" "$d/e" || refuse failed
    ended=
    trap 'ended=1' TERM
    pump o out &
    pump e err &
    (
        trap - TERM
        ANNALS_RUN=$id
        export ANNALS_RUN
        limit $limits
        exec "$@"
    ) <"$stdin" >"$d/o" 2>"$d/e" 5>&- &
    child=$!
    wait $child
    number=$? kind=exit
    : >"$d/ended"
    if [ -n "$ended" ]; then
        kind=ended
        kill -9 $child 2>/dev/null
    fi
    trap '' TERM
    sweep
    # What still holds a pipe was missed.
    while [ ! -e "$d/out.end" ] || [ ! -e "$d/err.end" ]; do
        sweep
    done
    finish $kind $number
    report
}

# Ends the call of this ID; one that has not come yet never starts.
end() {
    if mkdir "$d" 2>/dev/null; then
        refuse ended
    fi
    rounds=0
    while [ ! -s "$d/done" ] && [ $rounds -lt 100 ]; do
        if read -r pid 2>/dev/null <"$d/pid"; then
            kill -TERM "$pid" 2>/dev/null || break
        fi
        rounds=$((rounds + 1))
        [ -s "$d/done" ] || pause
    done
    [ -s "$d/done" ] || sweep
    attach
}

# Runs one of the functions below, whose standard output is the result.
answer() {
    claim
    "do_$verb" "$@" >"$d/out" 2>"$d/err"
    finish exit $?
    report
}

# probe WORKSPACE: makes the workspace, says what is here.
do_probe() {
    mkdir -p -- "$1" || return 1
    cd -P -- "$1" || return 1
    printf 'workspace=%s\n' "$PWD"
    for program in bash python3 node base64 find grep head mkfifo mv readlink sha256sum stat tar wc xargs; do
        found=$(command -v $program) && printf '%s=%s\n' $program "$found"
    done
    printf 'PATH=%s\n' "$PATH"
    printf 'HOME=%s\n' "${HOME:-}"
    printf 'LANG=%s\n' "${LANG:-}"
}

# exists WORKSPACE PATH
do_exists() {
    enter_workspace "$1"
    if place "$2" && [ -e "./$name" ]; then echo 1; else echo 0; fi
}

# locate WORKSPACE PATH: size and physical path of a regular file.
do_locate() {
    enter_workspace "$1"
    place "$2" || refuse no_file
    [ -e "./$name" ] || refuse no_file
    [ ! -d "./$name" ] || refuse directory
    [ -f "./$name" ] || refuse special
    printf '%s %s' "$(($(wc -c <"./$name")))" "$PWD/$name"
}

# read WORKSPACE PATH MOST
do_read() {
    do_locate "$1" "$2" >/dev/null
    [ $(($(wc -c <"./$name"))) -le "$3" ] || refuse large
    cat "./$name"
}

# write WORKSPACE PATH MODE CONTENT: CONTENT is `@` for runs/ID.in, or `=` and base64.
do_write() {
    enter_workspace "$1"
    place_new "$2"
    case $name in '' | . | ..) refuse outside ;; esac
    [ -L "./$name" ] || [ ! -d "./$name" ] || refuse directory
    draft=./.annals-$id
    case $4 in
    @) cat "$base/runs/$id.in" >"$draft" ;;
    =*) printf '%s' "${4#=}" | base64 -d >"$draft" ;;
    esac || {
        rm -f "$draft"
        return 1
    }
    chmod "$3" "$draft" || return 1
    # Moving onto a link to a folder would move into the folder.
    [ ! -L "./$name" ] || rm -f "./$name"
    mv -f "$draft" "./$name"
}

# list WORKSPACE PATH
do_list() {
    enter_workspace "$1"
    place "$2" || refuse no_file
    [ -e "./$name" ] || refuse no_file
    [ -d "./$name" ] || refuse not_directory
    cd -P -- "./$name" || return 1
    find . ! -name . -prune -exec stat -c "$id|%s|%f|%n" {} + 2>/dev/null
    return 0
}

# stamps WORKSPACE: of every regular file what changes whenever it does.
do_stamps() {
    enter_workspace "$1"
    find . -type f -exec stat -c "$id|%s|%f|%i|%y|%z|%n" {} + 2>/dev/null
    return 0
}

# hash WORKSPACE PATH...
do_hash() {
    enter_workspace "$1"
    shift
    printf '%s\0' "$@" | xargs -0 sha256sum 2>/dev/null
    return 0
}

# unpack WORKSPACE SHA256 FOLDER...: files of runs/ID.tar, whose folders are named, into the workspace.
do_unpack() {
    enter_workspace "$1"
    digest=$(sha256sum <"$base/runs/$id.tar") || return 1
    [ "${digest%% *}" = "$2" ] || refuse damaged
    shift 2
    mkdir "$d/stage" && tar -xof "$base/runs/$id.tar" -C "$d/stage" || return 1
    for folder in "$@"; do
        cd "$root" || return 1
        walk "$folder" make
        here=$PWD
        cd "$d/stage/$folder" || return 1
        for file in * .[!.]* ..?*; do
            [ -f "./$file" ] || continue
            if [ -L "$here/$file" ]; then
                rm -f "$here/$file"
            elif [ -d "$here/$file" ]; then
                refuse directory
            fi
        done
        find . ! -name . -prune -type f -exec sh -c 'mv -f "$@" "$0/"' "$here" {} + || return 1
    done
    rm -rf "$d/stage" "$base/runs/$id.tar"
}

# folders WORKSPACE FOLDER...: makes them.
do_folders() {
    enter_workspace "$1"
    shift
    for folder in "$@"; do
        cd "$root" || return 1
        walk "$folder" make
    done
}

# Prints the requests that programs inside write into a pipe, until it is ended.
watch() {
    mkdir -p "$1" && { [ -p "$1/requests" ] || mkfifo "$1/requests"; } && chmod 666 "$1/requests" || exit 1
    exec 3<>"$1/requests"
    exec cat <&3
}

# forget ID...: what is kept of calls whose report has arrived.
forget() {
    for old in "$@"; do
        rm -rf "$base/runs/$old" "$base/runs/$old".*
    done
}

[ -d "$base/runs" ] || mkdir -p "$base/runs"
case $verb in
run) run "$@" ;;
end) end ;;
watch) watch "$@" ;;
forget) forget "$@" ;;
*) answer "$@" ;;
esac
