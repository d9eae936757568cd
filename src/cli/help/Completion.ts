/**
 * Scripts that complete commands, options and their values in bash, zsh and fish, made from the pages of the help. They
 * fetch names from the server at run time (`Suggest.ts`).
 */
import { namesOfArgument, namesOfOption, optionOf, type Page, type Row, summary, takesFile } from "./Page.ts"

export const shells = ["bash", "zsh", "fish"] as const
type Shell = (typeof shells)[number]
export const isShell = (text: string | undefined): text is Shell => shells.some((shell) => shell === text)

interface Option {
  readonly names: ReadonlyArray<string>
  /** Kind of its value: none, one of some words, a file, a name from the server, or any text. */
  readonly takes: "nothing" | "file" | "names" | "text" | ReadonlyArray<string>
  readonly text: string
}

interface CompletedCommand {
  /** Words after the program's name, joined by blanks. */
  readonly at: string
  readonly commands: ReadonlyArray<readonly [name: string, text: string]>
  readonly options: ReadonlyArray<Option>
  readonly takesFile: boolean
  /** An argument is a name from the server. */
  readonly takesNames: boolean
}

const valueKind = (option: ReturnType<typeof optionOf>): Option["takes"] => {
  const { value } = option
  if (value === undefined) return "nothing"
  if (value.includes(" | ")) return value.split(" | ")
  return value === "file" ? "file" : namesOfOption(option) === undefined ? "text" : "names"
}

const toOption = (row: Row): Option => {
  const option = optionOf(row)
  return { names: option.names, takes: valueKind(option), text: option.text }
}

const places = (page: Page, path: ReadonlyArray<string> = []): ReadonlyArray<CompletedCommand> => [
  {
    at: path.join(" "),
    commands: page.below.map((child) => [child.name, summary(child)] as const),
    options: [...page.options.map(toOption), { names: ["--help"], takes: "nothing", text: "Show this help" }],
    takesFile: takesFile(page),
    takesNames: page.arguments.some((_, i) => namesOfArgument(page, i) !== undefined)
  },
  ...page.below.flatMap((child) => places(child, [...path, child.name]))
]

/** Single quotes work in all three shells. */
const quoted = (text: string): string => `'${text.replaceAll("'", "’")}'`
const flags = (place: CompletedCommand) => place.options.flatMap(({ names }) => names)
const short = (text: string) => text.split(/[.;] /)[0]?.slice(0, 90) ?? ""

const bash = (all: ReadonlyArray<CompletedCommand>): string => {
  const paths = all.filter(({ at }) => at !== "").map(({ at }) => quoted(at))
  const values = all.flatMap(({ at, options }) =>
    options.flatMap(({ names, takes }) => {
      if (takes === "nothing") return []
      const reply =
        takes === "file"
          ? 'compopt -o filenames; COMPREPLY=($(compgen -f -- "$cur")); '
          : takes === "text"
            ? ""
            : takes === "names"
              ? "_ampoule_names; "
              : `COMPREPLY=($(compgen -W ${quoted(takes.join(" "))} -- "$cur")); `
      return [`    ${names.map((name) => quoted(`${at}:${name}`)).join("|")}) ${reply}return ;;`]
    })
  )
  const words = all.map((place) => {
    const subcommands = place.commands.map(([name]) => name)
    return `    ${quoted(place.at)}) commands=${quoted(subcommands.join(" "))} options=${quoted(flags(place).join(" "))} files=${place.takesFile ? "yes" : "no"} names=${place.takesNames ? "yes" : "no"} ;;`
  })
  return `# bash completion of ampoule: source it, or put it into ~/.local/share/bash-completion/completions/ampoule
# Names of the server, one a line. As words, not by compgen -W, which would expand them.
_ampoule_names() {
  local name
  while IFS= read -r name; do
    if [[ "$name" == "$cur"* ]]; then COMPREPLY+=("$name"); fi
  done < <(ampoule __complete "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null </dev/null)
}
_ampoule() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" prev="\${COMP_WORDS[COMP_CWORD - 1]}" at="" next i commands="" options=""
  local files=no names=no
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ "\${COMP_WORDS[i]}" == "--" ]]; then
      if declare -F _command_offset >/dev/null; then _command_offset $((i + 1))
      elif ((COMP_CWORD == i + 1)); then COMPREPLY=($(compgen -c -- "$cur"))
      else compopt -o filenames; COMPREPLY=($(compgen -f -- "$cur")); fi
      return
    fi
    next="\${at:+$at }\${COMP_WORDS[i]}"
    case "$next" in
      ${paths.join("|")}) at="$next" ;;
    esac
  done
  case "$at:$prev" in
${values.join("\n")}
  esac
  case "$at" in
${words.join("\n")}
  esac
  if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$cur"))
  elif [[ -n "$commands" ]]; then COMPREPLY=($(compgen -W "$commands" -- "$cur")); fi
  if [[ "$names" == yes && "$cur" != -* ]]; then _ampoule_names; fi
  if [[ "$files" == yes && "$cur" != -* ]]; then compopt -o filenames; COMPREPLY+=($(compgen -f -- "$cur")); fi
}
complete -F _ampoule ampoule
`
}

const zsh = (all: ReadonlyArray<CompletedCommand>): string => {
  const described = (items: ReadonlyArray<readonly [string, string]>) =>
    items.map(([name, text]) => quoted(`${name}:${short(text)}`)).join(" ")
  const values = all.flatMap(({ at, options }) =>
    options.flatMap(({ names, takes }) => {
      if (takes === "nothing") return []
      const reply =
        takes === "file"
          ? "_files"
          : takes === "names"
            ? "_ampoule_names"
            : takes === "text"
              ? "_message 'a value'"
              : `compadd -- ${takes.join(" ")}`
      return [`    ${names.map((name) => quoted(`${at}:${name}`)).join("|")}) ${reply}; return ;;`]
    })
  )
  const words = all.map(
    (place) =>
      `    ${quoted(place.at)}) commands=(${described(place.commands)}) options=(${described(
        place.options.flatMap(({ names, text }) => names.map((name) => [name, text] as const))
      )}) files=${place.takesFile ? "yes" : "no"} names=${place.takesNames ? "yes" : "no"} ;;`
  )
  return `#compdef ampoule
# zsh completion of ampoule: source it behind compinit, or put it as _ampoule into a folder of $fpath
_ampoule_names() {
  local -a found
  found=("\${(@f)$(ampoule __complete "\${(@)words[2,CURRENT]}" 2>/dev/null </dev/null)}")
  compadd -- "\${(@)found:#}"
}
_ampoule() {
  local at="" next files=no names=no
  local -i i
  local -a commands options
  for ((i = 2; i < CURRENT; i++)); do
    if [[ "$words[i]" == "--" ]]; then
      if ((CURRENT == i + 1)); then _command_names -e; else _files; fi
      return
    fi
    next="\${at:+$at }$words[i]"
    case "$next" in
      ${all
        .filter(({ at }) => at !== "")
        .map(({ at }) => quoted(at))
        .join("|")}) at="$next" ;;
    esac
  done
  case "$at:$words[CURRENT-1]" in
${values.join("\n")}
  esac
  case "$at" in
${words.join("\n")}
  esac
  if [[ "$words[CURRENT]" == -* ]]; then
    _describe -o option options
  else
    (( $#commands )) && _describe command commands
    [[ $names == yes ]] && _ampoule_names
    [[ $files == yes ]] && _files
  fi
}
if [[ "$funcstack[1]" == "_ampoule" ]]; then _ampoule "$@"; else compdef _ampoule ampoule; fi
`
}

const fish = (all: ReadonlyArray<CompletedCommand>): string => {
  const lines = all.flatMap((place) => {
    const condition = `-n ${quoted(`__ampoule_at "${place.at}"`)}`
    return [
      ...place.commands.map(([name, text]) => `complete -c ampoule ${condition} -a ${name} -d ${quoted(short(text))}`),
      ...place.options.map(({ names, takes, text }) => {
        const flags = names.map((name) => (name.startsWith("--") ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`))
        const value =
          takes === "nothing"
            ? ""
            : takes === "file"
              ? " -rF"
              : takes === "names"
                ? " -xa '(__ampoule_names)'"
                : takes === "text"
                  ? " -x"
                  : ` -xa ${quoted(takes.join(" "))}`
        return `complete -c ampoule ${condition} ${flags.join(" ")}${value} -d ${quoted(short(text))}`
      }),
      ...(place.takesFile ? [`complete -c ampoule ${condition} -F`] : []),
      ...(place.takesNames ? [`complete -c ampoule ${condition} -a '(__ampoule_names)'`] : [])
    ]
  })
  return `# fish completion of ampoule: put it into ~/.config/fish/completions/ampoule.fish
set -g __ampoule_commands ${all
    .filter(({ at }) => at !== "")
    .map(({ at }) => quoted(at))
    .join(" ")}
function __ampoule_at
  set -l at
  for word in (commandline -opc)[2..]
    if test "$word" = --
      return 1
    end
    set -l next (string trim -- "$at $word")
    if contains -- "$next" $__ampoule_commands
      set at "$next"
    end
  end
  test "$at" = "$argv[1]"
end
function __ampoule_names
  ampoule __complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null </dev/null
end
function __ampoule_child
  contains -- -- (commandline -opc)
end
complete -c ampoule -e
complete -c ampoule -f
complete -c ampoule -n __ampoule_child -x -a '(__fish_complete_subcommand --fcs-skip=(math (contains -i -- -- (commandline -opc))))'
${lines.join("\n")}
`
}

export const script = (shell: Shell, root: Page): string => ({ bash, fish, zsh })[shell](places(root))
