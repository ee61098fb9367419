# fish completion for allogram. Reads the commands from `allogram --help`, the options of a command from `allogram COMMAND --help`,
# and the values of an option from `allogram COMMAND --values-of=OPTION`.

function __allogram_commands
    allogram --help 2>/dev/null | sed -n '/^commands/,/^$/s/^  \([a-z]*\)  *\(.*\)/\1\t\2/p'
end

function __allogram_options
    set -l words (commandline -opc)
    allogram $words[2] --help 2>/dev/null | sed -n -E 's/^  (-[a-z], )?(--[a-z-]+=?).*/\2/p'
end

# Prints the pids of this user's processes.
function __allogram_pids
    for process in (string match -r '^/proc/[0-9]+$' -- /proc/*)
        test -O $process; and string replace /proc/ '' -- $process
    end
end

complete -c allogram -n 'test (count (commandline -opc)) -eq 1' -f -a '(__allogram_commands)'
complete -c allogram -n 'test (count (commandline -opc)) -gt 1' -a '(__allogram_options)'
complete -c allogram -n '__fish_seen_subcommand_from attach observe control' -f -a '(__allogram_pids)'
complete -c allogram -n '__fish_seen_subcommand_from control' -f -a 'pause resume reset dump stop'
complete -c allogram -n '__fish_seen_subcommand_from run' -a '(__fish_complete_subcommand)'

# Prints the values of the option $argv[1]. fish completes the value of --option=VALUE only for options that are declared with
# `complete -l`, so the loop below declares options that have a list of values.
function __allogram_values
    set -l words (commandline -opc)
    allogram $words[2] --values-of=$argv[1] 2>/dev/null
end

for option in report:view report:sort report:by report:fold report:state report:known report:color diff:sort diff:by diff:fold diff:color \
        export:to export:metric export:fold run:mode run:follow run:adapters attach:mode attach:adapters
    set -l parts (string split : $option)
    complete -c allogram -n "__fish_seen_subcommand_from $parts[1]" -x -l $parts[2] -a "(__allogram_values $parts[2])"
end
