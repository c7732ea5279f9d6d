import type { Binding } from './binding.ts';

/** The codes of an NftError: the name of an errno, or one of this package's own. See NftError. */
export type NftErrorCode =
  | 'ENOENT'
  | 'EEXIST'
  | 'EPERM'
  | 'EACCES'
  | 'EINVAL'
  | 'EBUSY'
  | 'EINTR'
  | 'ENOMEM'
  | 'ENOBUFS'
  | 'EMSGSIZE'
  | 'ENAMETOOLONG'
  | 'EOPNOTSUPP'
  | 'ELOOP'
  | 'SYNTAX'
  | 'CLOSED'
  | 'UNKNOWN'
  // Every other errno is also represented by its C name; these are the ones to expect.
  | (string & {});

/** One error of a failed call, with the fields of NftError. */
export interface NftErrorDetail {
  code: NftErrorCode;
  message: string;
  errno: number | null;
  line: number | null;
  column: number | null;
  command: string | null;
  refersTo: string | null;
  operation: number | null;
  set: string | null;
  expression: number | null;
  element: Uint8Array | null;
}

/**
 * A refused command, batch or dump.
 *
 * `code` is an errno's name (ENOENT, EEXIST, EPERM, EBUSY ...), or
 * - SYNTAX: libnftables refused the text itself, its grammar or its meaning, before the kernel saw
 *   it;
 * - CLOSED: the object was closed before the call;
 * - UNKNOWN: a message that could not be classified; read `stderr`.
 */
export class NftError extends Error implements NftErrorDetail {
  override readonly name = 'NftError';
  readonly code: NftErrorCode;
  /** The errno; null if there is none (SYNTAX, CLOSED, UNKNOWN). */
  readonly errno: number | null;
  /** The line in the text that was run, from 1. Null for errors of a batch or a socket. */
  readonly line: number | null;
  /** The column in that line, from 1. */
  readonly column: number | null;
  /** The text of that line. */
  readonly command: string | null;
  /** The part of the line that libnftables underlines. */
  readonly refersTo: string | null;
  /** The index of the refused operation of a batch, from 0. */
  readonly operation: number | null;
  /** The set of that operation. */
  readonly set: string | null;
  /** The index of the refused expression of a rule, if the kernel names it. */
  readonly expression: number | null;
  /** The key of the refused element (for a range: its first key), if the kernel names it. */
  readonly element: Uint8Array | null;
  /** libnftables' whole error output; empty for a batch or a socket. */
  readonly stderr: string;
  /** All errors of this call; the first is this one. */
  readonly all: readonly NftErrorDetail[];

  constructor(
    details: readonly [NftErrorDetail, ...NftErrorDetail[]],
    stderr: string,
    options?: ErrorOptions,
  ) {
    const [first] = details;
    super(first.message, options);
    this.code = first.code;
    this.errno = first.errno;
    this.line = first.line;
    this.column = first.column;
    this.command = first.command;
    this.refersTo = first.refersTo;
    this.operation = first.operation;
    this.set = first.set;
    this.expression = first.expression;
    this.element = first.element;
    this.stderr = stderr;
    this.all = details;
  }
}

/** A detail with code and message only. */
export function plainDetail(code: NftErrorCode, message: string): NftErrorDetail {
  return {
    code,
    message,
    errno: null,
    line: null,
    column: null,
    command: null,
    refersTo: null,
    operation: null,
    set: null,
    expression: null,
    element: null,
  };
}

/** The error of every call after close(). */
export function closedError(owner: string): NftError {
  return new NftError([plainDetail('CLOSED', `${owner} is closed`)], '');
}

/** The errors of the C library, by number and by the message of strerror(). */
export interface ErrnoTable {
  nameOf(errno: number): string;
  messageOf(errno: number): string;
  /** The errno with exactly this message; null if there is none. */
  errnoOf(message: string): number | null;
}

/** Builds the table from the errors that the addon reads from the C library. */
export function toErrnoTable(errors: Binding['errors']): ErrnoTable {
  const byNumber = new Map(errors.map((row) => [row[0], row]));
  // Two numbers never share a message; aliases (EAGAIN, EWOULDBLOCK) are one number.
  const byMessage = new Map(errors.map((row) => [row[2], row[0]]));
  return {
    nameOf: (errno) => byNumber.get(errno)?.[1] ?? 'UNKNOWN',
    messageOf: (errno) => byNumber.get(errno)?.[2] ?? `error ${errno}`,
    errnoOf: (message) => byMessage.get(message) ?? null,
  };
}

interface NativeDetail {
  errno: number;
  operation: number;
  /** -1: none. */
  expression: number;
  element: Uint8Array;
  text: string;
}

interface NativeFailure extends Error {
  errno: number;
  details: NativeDetail[];
}

function isNativeFailure(error: unknown): error is NativeFailure {
  return error instanceof Error && 'errno' in error && 'details' in error;
}

/** Describes the operation at an index of the batch. */
export type DescribeOperation = (operation: number) => { text: string; set: string | null } | null;

/** Converts an error of the addon to an NftError; any other value is returned unchanged. */
export function toNftError(
  error: unknown,
  table: ErrnoTable,
  describe: DescribeOperation = () => null,
): unknown {
  if (!isNativeFailure(error)) return error;
  const toDetail = (native: NativeDetail): NftErrorDetail => {
    const operation = describe(native.operation);
    const element = native.element.length > 0 ? native.element : null;
    const message = [
      operation?.text,
      native.expression >= 0 && `expression ${native.expression}`,
      element && `element 0x${Buffer.from(element).toString('hex')}`,
      table.messageOf(native.errno),
      native.text,
    ];
    return {
      ...plainDetail(table.nameOf(native.errno), message.filter((part) => part).join(': ')),
      errno: native.errno,
      operation: operation && native.operation,
      set: operation?.set ?? null,
      expression: native.expression >= 0 ? native.expression : null,
      element,
    };
  };
  const [first, ...rest] = error.details.map(toDetail);
  const whole = { ...plainDetail(table.nameOf(error.errno), error.message), errno: error.errno };
  return new NftError([first ?? whole, ...rest], '', { cause: error });
}

/**
 * The error for an answer of the kernel that is an errno, about one thing, with the kernel's own
 * text where it gave one: "link 7: No such device".
 */
export function plainError(errno: number, what: string, errnos: ErrnoTable, text = ''): NftError {
  const message = [what, errnos.messageOf(errno), text].filter((part) => part !== '').join(': ');
  const detail = plainDetail(errnos.nameOf(errno), message);
  return new NftError([{ ...detail, errno }], '');
}
