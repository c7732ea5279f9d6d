import type { ErrnoTable } from './errno.ts';
import { NftError, type NftErrorCode, type NftErrorDetail, plainDetail } from './errors.ts';

// Errors that libnftables detects by itself about the rules in the kernel, so that the message has
// no strerror().
const ownMessages: readonly [RegExp, NftErrorCode][] = [
  // intervals.c compares new ranges with those it read from the kernel.
  [/^interval overlaps with an existing one/, 'EEXIST'],
  [/^conflicting intervals specified/, 'EEXIST'],
  // rule.c, cache.c
  [/^(?:Could not|cannot) process rule: .*does not exist/i, 'ENOENT'],
];

// "<cmdline>:3:12-20: Error: text", and the parser's "<cmdline>:3:12-20: Error: syntax error,
// unexpected ...".
const located = /^(.+?):(\d+):(\d+)-(\d+): (Error|Warning): (.*)$/;
const bare = /^(?:netlink: |internal:0:0-0: )?(?:Error: )(.*)$/;

/**
 * Converts libnftables' messages about a failed command, which are English text only, to an
 * NftError.
 *
 * Matching this text is safe: libnftables has no translations (no gettext), and its messages about
 * the kernel's answers end in strerror(errno). That text depends on the C locale, which is "C"
 * unless the process calls setlocale(); Node.js does not. And `table` comes from strerror() of the
 * same process, so both texts would change together. A message that does not match is SYNTAX if it
 * has a position in the text, else UNKNOWN, with the output in `stderr`.
 */
export function toTextError(stderr: string, text: string, table: ErrnoTable): NftError {
  const lines = stderr.split('\n');
  const details: NftErrorDetail[] = [];
  for (const [index, line] of lines.entries()) {
    const detail = readError(line, lines.slice(index + 1, index + 3), text, table);
    if (detail) details.push(detail);
  }
  const [first, ...rest] = details;
  const fallback = plainDetail('UNKNOWN', stderr.trim() || 'libnftables failed without a message');
  return new NftError([first ?? fallback, ...rest], stderr);
}

function readError(line: string, after: string[], text: string, table: ErrnoTable): NftErrorDetail | null {
  const place = located.exec(line);
  if (!place) {
    const [, message] = bare.exec(line) ?? [];
    return message === undefined ? null : toDetail(message, false, table);
  }
  const [, , row = '', from = '', , severity, message = ''] = place;
  if (severity !== 'Error') return null;
  const lineNumber = Number(row);
  if (lineNumber === 0) return toDetail(message, false, table);
  const command = text.split('\n')[lineNumber - 1] ?? null;
  return {
    ...toDetail(message, true, table),
    line: lineNumber,
    column: Number(from),
    command,
    refersTo: underlined(after),
  };
}

function toDetail(message: string, hasPlace: boolean, table: ErrnoTable): NftErrorDetail {
  const errno = errnoIn(message, table);
  if (errno !== null) return { ...plainDetail(table.nameOf(errno), message), errno };
  const own = ownMessages.find(([pattern]) => pattern.test(message));
  return plainDetail(own?.[1] ?? (hasPlace ? 'SYNTAX' : 'UNKNOWN'), message);
}

/**
 * The errno whose message is the whole text, or its part after the last colon; a hint may follow
 * ("; did you mean ...").
 */
function errnoIn(message: string, table: ErrnoTable): number | null {
  const withoutHint = message.replace(/; did you mean .*$/, '').replace(/ \(you must be root\)$/, '');
  const parts = withoutHint.split(': ');
  return table.errnoOf(withoutHint) ?? table.errnoOf(parts.at(-1) ?? '');
}

/**
 * The part that libnftables underlines: it repeats the line of the text and marks the part with ^
 * or ~ below.
 */
function underlined([source = '', marks = '']: string[]): string | null {
  if (!/^[\s~]*\^[\s~^]*$/.test(marks)) return null;
  const from = marks.indexOf('^');
  const to = marks.lastIndexOf('^') + 1;
  return source.slice(from, to) || null;
}
