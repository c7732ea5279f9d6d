import { styleText } from 'node:util';

type Style = Parameters<typeof styleText>[0];

/** Styles the text only if the stream is a terminal (styleText checks it, and NO_COLOR). */
export function styled(style: Style, text: string, stream: NodeJS.WriteStream = process.stdout): string {
  return styleText(style, text, { stream });
}

/** A command as its shell completion sees it. */
export interface CompletedCommand {
  /** The words after the program's name; []: the program itself. */
  readonly path: readonly string[];
  readonly subcommands: readonly string[];
  readonly options: readonly CompletedOption[];
}

export interface CompletedOption {
  /** `-o`, `--output`. */
  readonly flags: readonly string[];
  readonly description: string;
  /** Null: it takes none. */
  readonly value: CompletedValue | null;
}

/** Words to choose from, a path, or something that only the user knows. */
export type CompletedValue = readonly string[] | 'file' | 'directory' | 'other';

export const SHELLS = ['bash', 'zsh', 'fish', 'kubectl'] as const;
export type Shell = (typeof SHELLS)[number];

interface Program {
  readonly name: string;
  readonly commands: readonly CompletedCommand[];
}

/**
 * The script of a shell that completes the program's commands, options and their values; it starts
 * no program. `kubectl`: an executable that kubectl calls for a plugin (kubectl_complete-NAME).
 */
export function completionScript(shell: Shell, program: Program): string {
  switch (shell) {
    case 'bash':
      return `# bash completion of ${program.name}: source it, for example in ~/.bashrc\n${bash(program)}`;
    case 'zsh':
      return `#compdef ${program.name}\n# zsh completion of ${program.name}: put it into a folder of $fpath as _${program.name}, or source it\n${zsh(program)}`;
    case 'fish':
      return `# fish completion of ${program.name}: ~/.config/fish/completions/${program.name}.fish\n${fish(program)}`;
    case 'kubectl':
      return `#!/bin/bash\n# Put it into PATH as kubectl_complete-${program.name}, executable.\n${kubectl(program)}`;
  }
}

/** Within single quotes of a POSIX shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

const pathOf = ({ path }: CompletedCommand): string => path.join(' ');
const wordsOf = ({ subcommands, options }: CompletedCommand): string =>
  [...subcommands, ...options.flatMap(({ flags }) => flags)].join(' ');

/** The lines of `case` that find the command, and what may follow an option of it. */
function cases({ commands }: Program, reply: (value: CompletedValue) => string) {
  const paths = commands.filter(({ path }) => path.length > 0).map((one) => quoted(pathOf(one)));
  const values = commands.flatMap((command) =>
    command.options.flatMap(({ flags, value }) => {
      if (value === null) return [];
      const patterns = flags.map((flag) => quoted(`${pathOf(command)}:${flag}`)).join('|');
      return [`    ${patterns}) ${reply(value)}; return ;;`];
    }),
  );
  const words = commands.map((one) => `    ${quoted(pathOf(one))}) words=${quoted(wordsOf(one))} ;;`);
  return { paths: paths.join('|'), values: values.join('\n'), words: words.join('\n') };
}

function bash(program: Program): string {
  const { paths, values, words } = cases(program, (value) => {
    if (value === 'file') return 'COMPREPLY=($(compgen -f -- "$cur"))';
    if (value === 'directory') return 'COMPREPLY=($(compgen -d -- "$cur"))';
    return value === 'other'
      ? 'COMPREPLY=()'
      : `COMPREPLY=($(compgen -W ${quoted(value.join(' '))} -- "$cur"))`;
  });
  return `_${program.name}() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} path= word words=
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "\${path:+$path }$word" in
    ${paths}) path="\${path:+$path }$word" ;;
    esac
  done
  case "$path:$prev" in
${values}
  esac
  case "$path" in
${words}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o bashdefault -o default -F _${program.name} ${program.name}
`;
}

/** kubectl passes the words after the plugin's name; the last line is a directive of cobra's. */
function kubectl(program: Program): string {
  return `${bash(program)}COMP_WORDS=(${program.name} "$@")
COMP_CWORD=$#
_${program.name}
printf '%s\\n' "\${COMPREPLY[@]}"
# ShellCompDirectiveNoFileComp
echo :4
`;
}

function zsh(program: Program): string {
  const { paths, values, words } = cases(program, (value) => {
    if (value === 'file') return '_files';
    if (value === 'directory') return '_files -/';
    return value === 'other' ? '_message value' : `compadd -- ${value.map(quoted).join(' ')}`;
  });
  return `_${program.name}() {
  local cur=\${words[CURRENT]} prev=\${words[CURRENT-1]} path= word wanted=
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "\${path:+$path }$word" in
    (${paths}) path="\${path:+$path }$word" ;;
    esac
  done
  case "$path:$prev" in
${values}
  esac
  case "$path" in
${words.replaceAll(' words=', ' wanted=')}
  esac
  compadd -- \${=wanted} || _files
}
if [ "$funcstack[1]" = _${program.name} ]; then _${program.name} "$@"; else compdef _${program.name} ${program.name}; fi
`;
}

function fish({ name, commands }: Program): string {
  const paths = commands.filter(({ path }) => path.length > 0).map((one) => quoted(pathOf(one)));
  const lines = commands.flatMap((command) => {
    const when = `-n ${quoted(`test (__${name}_path) = ${quoted(pathOf(command))}`)}`;
    const subcommands = command.subcommands.map(
      (word) => `complete -c ${name} ${when} -f -a ${quoted(word)}`,
    );
    const options = command.options.map(({ flags, description, value }) => {
      const words = flags.map((flag) =>
        flag.startsWith('--') ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`,
      );
      return `complete -c ${name} ${when} ${words.join(' ')}${fishValue(value)} -d ${quoted(firstSentence(description))}`;
    });
    return [...subcommands, ...options];
  });
  return `function __${name}_path
  set -l path ''
  for word in (commandline -opc)[2..-1]
    set -l next (string trim "$path $word")
    contains -- $next ${paths.join(' ')}; and set path $next
  end
  echo "$path"
end
${lines.join('\n')}
`;
}

function fishValue(value: CompletedValue | null): string {
  if (value === null) return '';
  if (value === 'file' || value === 'directory') return ' -r -F';
  return value === 'other' ? ' -x' : ` -x -a ${quoted(value.join(' '))}`;
}

function firstSentence(text: string): string {
  return text.split(/[;.:]\s/, 1)[0] ?? '';
}
