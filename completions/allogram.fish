# fish completion for allogram. Commands and options come from allogram's own --help.

function __allogram_commands
    allogram --help 2>/dev/null | sed -n '/^commands/,/^$/s/^  \([a-z]*\)  *\(.*\)/\1\t\2/p'
end

function __allogram_options
    set -l words (commandline -opc)
    allogram $words[2] --help 2>/dev/null | sed -n -E 's/^  (-[a-z], )?(--[a-z-]+=?).*/\2/p'
end

complete -c allogram -n 'test (count (commandline -opc)) -eq 1' -f -a '(__allogram_commands)'
complete -c allogram -n 'test (count (commandline -opc)) -gt 1' -a '(__allogram_options)'
complete -c allogram -n '__fish_seen_subcommand_from run' -a '(__fish_complete_subcommand)'
