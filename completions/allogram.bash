# bash completion for allogram.
#
# Commands and options come from allogram's own --help.

_allogram() {
    local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]:-} i
    COMPREPLY=()

    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "$(allogram --help 2>/dev/null |
            sed -n '/^commands/,/^$/s/^  \([a-z]*\) .*/\1/p')" -- "$current")
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
        mapfile -t COMPREPLY < <(compgen -W "$(allogram "$command" --help 2>/dev/null |
            sed -n -E 's/^  (-[a-z], )?(--[a-z-]+=?).*/\2/p')" -- "$current")
        [[ ${COMPREPLY[0]:-} == *= ]] && compopt -o nospace
        return
    fi
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -f -X '!*.allogram' -- "$current"; compgen -d -- "$current")
}

complete -F _allogram allogram
