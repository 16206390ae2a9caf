# SPDX-License-Identifier: GPL-2.0-only OR MIT
# bash: commands, options and their words are those that `hugemap help` lists.

_hugemap_commands() {
	"$1" help 2>/dev/null | sed -n 's/^  \([a-z]*\)  .*/\1/p'
}

# "--option ARGUMENT" lines of "COMMAND" or "COMMAND PART"; a letter has a line of its own.
_hugemap_options() {
	"$1" help $2 2>/dev/null |
		sed -n -e 'h; s/^  \(-.\), --[a-z-]* \([^ ]*\)  .*/\1 \2/p; g' \
			-e 's/^  \(-., \)\{0,1\}\(--[a-z-]*\) \([^ ]*\)  .*/\2 \3/p'
}

# The words that an option takes, where its help has them in a list.
_hugemap_words() {
	local title=${3#--} help

	case $4 in
	*'|'*) echo "${4//|/ }" ;;
	NAME)
		help=$("$1" help $2 2>/dev/null)
		sed -n "s/^${title^}s: *//p" <<<"${help//$'\n           '/ }"
		;;
	WORD) "$1" help $2 2>/dev/null | sed -n "s/,//g; s/ or / /; s/^  $3 $4 *//p" ;;
	esac
}

# The processes and mounts that `hugemap stat` lists, or the mounts alone.
_hugemap_targets() {
	"$1" stat 2>/dev/null | sed -n "$2"' s/^\(\/.*[^ ]\)\( \{1,\}[0-9.]* [KMGT]*B\)\{3\}$/\1/p'
}

_hugemap_lines() {
	local line

	while IFS= read -r line; do
		COMPREPLY+=("$line")
	done
}

_hugemap_files() {
	compopt -o filenames 2>/dev/null
	_hugemap_lines < <(compgen "$1" -- "$2")
}

_hugemap_argument() {
	case $4 in
	DIR) _hugemap_files -d "$5" ;;
	FILE | PATH) _hugemap_files -f "$5" ;;
	*) _hugemap_lines < <(compgen -W "$(_hugemap_words "$@")" -- "$5") ;;
	esac
}

# After `hugemap run [OPTION]...` and `hugemap check [OPTION]...`: as if the program had been typed first.
_hugemap_program() {
	if ((COMP_CWORD == $1)); then
		compopt -o filenames 2>/dev/null
		_hugemap_lines < <(compgen -c -- "$2")
	elif declare -F _comp_command_offset >/dev/null; then
		_comp_command_offset "$1"
	elif declare -F _command_offset >/dev/null; then
		_command_offset "$1"
	else
		_hugemap_files -f "$2"
	fi
}

_hugemap() {
	local program=$1 current=$2 command=${COMP_WORDS[1]} option='' name argument parts i
	local -A takes=()

	COMPREPLY=()
	if ((COMP_CWORD == 1)) || [[ $command == help && COMP_CWORD -eq 2 ]]; then
		_hugemap_lines < <(compgen -W "$(_hugemap_commands "$program")" -- "$current")
		return
	fi
	# A part of a command, as in `hugemap bench ycsb`, has options of its own.
	parts=$(_hugemap_words "$program" "$command" --command NAME)
	if ((COMP_CWORD > 2)) && [[ " $parts " == *" ${COMP_WORDS[2]} "* ]]; then
		command="$command ${COMP_WORDS[2]}"
	fi
	while read -r name argument; do
		takes[$name]=$argument
	done < <(_hugemap_options "$program" "$command")

	# What is being typed: an option, its argument, or an operand?
	[[ $current == = ]] && current=''
	for ((i = 2; i < COMP_CWORD; i++)); do
		name=${COMP_WORDS[i]}
		if [[ $option ]]; then
			[[ $name == = ]] || option=''
		elif [[ $command == @(check|run) && $name == -- ]]; then
			_hugemap_program $((i + 1)) "$current"
			return
		elif [[ $name == -* ]]; then
			[[ ${takes[$name]} ]] && option=$name
		elif [[ $command == @(check|run) ]]; then
			_hugemap_program "$i" "$current"
			return
		fi
	done

	if [[ $option ]]; then
		_hugemap_argument "$program" "$command" "$option" "${takes[$option]}" "$current"
	elif [[ $current == -* ]]; then
		_hugemap_lines < <(compgen -W "${!takes[*]}" -- "$current")
	else
		case $command in
		bench) _hugemap_lines < <(compgen -W "$parts" -- "$current") ;;
		attach) _hugemap_lines < <(cd /proc && compgen -G "$current*" -X '![0-9]*') ;;
		mount) _hugemap_files -f "$current" ;;
		check | run) _hugemap_program "$COMP_CWORD" "$current" ;;
		stat)
			_hugemap_files -f "$current"
			_hugemap_lines < <(_hugemap_targets "$program" 's/^ *\([0-9]\{1,\}\)  .*/\1/p;' |
				while IFS= read -r name; do
					[[ $name == "$current"* ]] && printf '%s\n' "$name"
				done)
			;;
		umount)
			compopt -o filenames 2>/dev/null
			_hugemap_lines < <(_hugemap_targets "$program" '' | while IFS= read -r name; do
				[[ $name == "$current"* ]] && printf '%s\n' "$name"
			done)
			;;
		esac
	fi
}

complete -F _hugemap hugemap
