# SPDX-License-Identifier: GPL-2.0-only OR MIT
# fish: commands, options and their words are those that `hugemap help` lists.

function __hugemap_commands
    $argv[1] help 2>/dev/null | string replace -rf '^  ([a-z]+) +(.*)' '$1\t$2'
end

# Lines of an option, its argument and its description, with tabs between them; a letter
# has a line of its own.
function __hugemap_options
    $argv[1] help (string split ' ' -- $argv[2]) 2>/dev/null |
        string replace -rf '^  (?:(-.), )?(--[a-z-]+)(?: (\S+))?  +(.*)' '$1 $2\t$3\t$4' |
        while read -l line
            set -l parts (string split -m 1 \t -- $line)
            for name in (string split -n ' ' -- $parts[1])
                printf '%s\t%s\n' $name $parts[2]
            end
        end
end

# The processes that `hugemap stat` lists.
function __hugemap_processes
    $argv[1] stat 2>/dev/null | string replace -rf '^ *([0-9]+)  (\S+) .*' '$1\t$2'
end

function __hugemap_mounts
    $argv[1] stat 2>/dev/null | string replace -rf '^(/.*\S)(?: +[0-9.]+ [KMGT]?B){3}$' '$1\tmount'
end

function __hugemap_argument -a program command option argument text
    switch $argument
        case DIR
            __fish_complete_directories (commandline -ct) ''
        case FILE PATH
            __fish_complete_path (commandline -ct)
        case '*|*'
            string split '|' -- $argument
        case NAME
            set -l title (string sub -s 3 -- $option)
            set -l help ($program help (string split ' ' -- $command) 2>/dev/null | string collect)
            string replace -a \n'           ' ' ' -- $help | string replace -rfi "^$title""s: *" '' |
                string split -n ' '
        case WORD
            string replace -a , '' -- $text | string replace ' or ' ' ' | string split -n ' '
    end
end

function __hugemap_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program $words[1]
    set -l command $words[2]
    if test (count $words) -eq 1; or test "$command" = help
        test (count $words) -gt 2; or __hugemap_commands $program
        return
    end
    # A part of a command, as in `hugemap bench ycsb`, has options of its own.
    set -l parts ($program help $command 2>/dev/null | string replace -rf '^Commands: *' '' | string split -n ' ')
    if test (count $words) -gt 2; and contains -- "$words[3]" $parts
        set command "$command $words[3]"
        set parts
    end
    set -l options (__hugemap_options $program $command)

    # What is being typed: an option, its argument, or an operand?
    set -l pending
    for i in (seq 3 (count $words))
        set -l word $words[$i]
        if test -n "$pending"
            set pending
        else if string match -q -- '-*' $word; and test "$word" != --
            set -l found (string match -- $word\t'*' $options)
            and test -n (string split \t -- $found[1])[2]
            and set pending $found[1]
        else if contains -- "$command" check run
            test "$word" = --; and set i (math $i + 1)
            complete -C (string join ' ' -- (string escape -- $words[$i..-1]) "$current")
            return
        end
    end

    if test -n "$pending"
        __hugemap_argument $program $command (string split \t -- $pending)
    else if string match -rq -- '^--[a-z-]+=' $current
        set -l option (string replace -r '=.*' '' -- $current)
        set -l found (string match -- $option\t'*' $options)
        and __hugemap_argument $program $command (string split \t -- $found[1]) |
            string replace -r -- '^' "$option="
    else if string match -q -- '-*' $current
        string replace -r '\t[^\t]*\t' '\t' -- $options
    else
        switch $command
            case bench
                printf '%s\n' $parts
            case attach
                __fish_complete_pids
            case mount
                __fish_complete_path $current
            case check run
                complete -C "$current"
            case stat
                __hugemap_processes $program
                __hugemap_mounts $program
                __fish_complete_path $current
            case umount
                __hugemap_mounts $program
        end
    end
end

complete -c hugemap -f -a '(__hugemap_complete)'
