/**
 * The commands in the documents: a fence `console` holds lines `$ nodewall …`, each followed by
 * what it prints.
 */

import { fencesOf } from './markdown.ts';

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
export function consoleCommands(path: string, page: string): ConsoleCommand[] {
  return fencesOf(path, page, 'console').flatMap(({ line, text }) => {
    const parts = text.matchAll(/^\$ (?<command>(?:.*\\\n)*.*\n)(?<shown>(?:(?!\$ ).*\n)*)/gm);
    return [...parts].map(({ index, groups: { command = '', shown = '' } = {} }) => {
      const at = line + 1 + rows(text.slice(0, index));
      const from = at - 1 + rows(command);
      const args = words(command.replaceAll(/\\\n\s*/g, ''));
      return { line: at, args, shown, span: [from, from + rows(shown)] as const };
    });
  });
}

function rows(text: string): number {
  return text.split('\n').length - 1;
}

/** Words apart by blanks; single quotes hold a word together. No shell is asked. */
function words(command: string): string[] {
  return [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
}
