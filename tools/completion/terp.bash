# shellcheck shell=bash
# Completion of the terp tool in bash. It reads commands and options from --help.

_terp() {
    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local words

    # bash splits "--pipeline=ra" into three words.
    if [ "$word" = = ]; then
        word=
    elif [ "$previous" = = ]; then
        previous=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    if [ "$COMP_CWORD" -eq 1 ]; then
        words=$("${COMP_WORDS[0]}" --help |
            sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
    elif [ "$COMP_CWORD" -eq 2 ] && [ "${COMP_WORDS[1]}" = help ] &&
        [ "${word:0:1}" != - ]; then
        words=$("${COMP_WORDS[0]}" --help |
            sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
    elif [ "$previous" = --pipeline ]; then
        words="auto huffman speed ratio"
    elif [ "$previous" = --predictor ]; then
        words="auto spline lorenzo"
    elif [ "$previous" = --keep-sign ]; then
        words="values chunk none"
    elif [ "$previous" = --rest ]; then
        words="keep deflate"
    elif [ "$previous" = --effort ]; then
        words="default fast best"
    elif [ "$previous" = --format ]; then
        words="1"
    elif [ "$previous" = --type ]; then
        words="float32 float64 float16 bfloat16 complex64 complex128"
        words+=" int8 int16 int32 int64 uint8 uint16 uint32 uint64"
    elif [ "$previous" = --engine ]; then
        words="cpu cuda auto"
    elif [ "${word:0:1}" = - ]; then
        words=$("${COMP_WORDS[0]}" "${COMP_WORDS[1]}" --help |
            sed -n 's/^  [ -].[ ,] \(--[a-z-]*=\{0,1\}\).*/\1/p')
        compopt -o nospace 2>/dev/null
    else
        # readline completes files and directories.
        COMPREPLY=()
        return
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -o default -F _terp terp
