/**
 * The commands in the documents: a fence `console` holds lines `$ nodewall …`, each followed by
 * what it prints.
 */

export interface ConsoleCommand {
  /** 1-based line of the `$`. */
  readonly line: number;
  readonly args: readonly string[];
  /** Standard output, then standard error, as the document shows them. */
  readonly shown: string;
  /** Where the shown text stands in the document, in lines: [from, to). */
  readonly span: readonly [number, number];
}

/**
 * Every command of a document's console fences. A command may go on after a backslash at the end of
 * a line.
 */
export function consoleCommands(text: string): ConsoleCommand[] {
  const lines = text.split('\n');
  const found: ConsoleCommand[] = [];
  let inside = false;
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i] ?? '';
    if (line.startsWith('```')) inside = line === '```console';
    if (!inside || !line.startsWith('$ ')) continue;
    let end = i + 1;
    let command = line.slice(2);
    while (command.endsWith('\\')) command = command.slice(0, -1) + (lines[end++] ?? '').trimStart();
    let stop = end;
    while (stop < lines.length && !lines[stop]?.startsWith('$ ') && lines[stop] !== '```') stop++;
    const shown = lines.slice(end, stop).map((shownLine) => `${shownLine}\n`);
    found.push({ line: i + 1, args: words(command), shown: shown.join(''), span: [end, stop] });
    i = stop - 1;
  }
  return found;
}

/** Words apart by blanks; single quotes hold a word together. No shell is asked. */
function words(command: string): string[] {
  return [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
}
