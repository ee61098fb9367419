# bash completion for allogram.
#
# Reads the commands from `allogram --help`, the options of a command from `allogram COMMAND --help`, and the values of an option from
# `allogram COMMAND --values-of=OPTION`.

_allogram_complete_from() {
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2")
}

# Prints the pids of this user's processes.
_allogram_pids() {
    local process
    for process in /proc/[0-9]*; do
        [[ -O $process ]] && printf '%s ' "${process#/proc/}"
    done
}

_allogram() {
    local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]:-} option= values i
    COMPREPLY=()

    if ((COMP_CWORD == 1)); then
        _allogram_complete_from "$(allogram --help 2>/dev/null | sed -n '/^commands/,/^$/s/^  \([a-z]*\) .*/\1/p')" "$current"
        return
    fi

    # bash splits --option=value into three words: --option, =, value. If no value was typed yet, the third word is missing or empty.
    if [[ $current == = ]]; then
        option=${COMP_WORDS[COMP_CWORD - 1]} current=
    elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == = ]]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    if [[ $option == --* ]]; then
        values=$(allogram "$command" --values-of="${option#--}" 2>/dev/null)
        if [[ $values ]]; then
            _allogram_complete_from "$values" "$current"
        else
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
        fi
        return
    fi

    if [[ $command == run ]]; then # the words after the options of `run` are completed as a command line
        for ((i = 2; i < COMP_CWORD; i++)); do
            case ${COMP_WORDS[i]} in
            --) ((i++)) ;;
            -o | --output) [[ ${COMP_WORDS[i + 1]:-} == = ]] && ((i++)); ((i++)); continue ;;
            -* | =) continue ;;
            esac
            [[ ${COMP_WORDS[i - 1]} == = ]] && continue
            _command_offset "$i"
            return
        done
        if [[ $current != -* ]]; then
            _command_offset "$COMP_CWORD"
            return
        fi
    fi

    if [[ $current == -* ]]; then
        _allogram_complete_from "$(allogram "$command" --help 2>/dev/null |
            sed -n -E 's/^  (-[a-z], )?(--[a-z-]+=?).*/\2/p')" "$current"
        [[ ${COMPREPLY[0]:-} == *= ]] && compopt -o nospace
        return
    fi
    case $command in
    attach | observe) _allogram_complete_from "$(_allogram_pids)" "$current" ;;
    control)
        if ((COMP_CWORD == 2)); then
            _allogram_complete_from "$(_allogram_pids)" "$current"
        else
            _allogram_complete_from "pause resume reset dump stop" "$current"
        fi
        ;;
    doctor) ;;
    *)
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -X '!*.allogram' -- "$current"; compgen -d -- "$current")
        ;;
    esac
}

complete -F _allogram allogram
