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
  operation: number | null;
}

/**
 * A refused command, batch or dump.
 *
 * `code` is an errno's name (ENOENT, EEXIST, EPERM, EBUSY ...), or
 * - SYNTAX: libnftables refused the text itself, its grammar or its meaning, before the kernel saw
 *   it;
 * - CLOSED: the object was closed before the call;
 * - UNKNOWN: a message that could not be classified.
 */
export class NftError extends Error implements NftErrorDetail {
  override readonly name = 'NftError';
  readonly code: NftErrorCode;
  /** The index of the refused operation of a batch, from 0. */
  readonly operation: number | null;
  /** All errors of this call; the first is this one. */
  readonly all: readonly NftErrorDetail[];

  constructor(details: readonly [NftErrorDetail, ...NftErrorDetail[]], options?: ErrorOptions) {
    const [first] = details;
    super(first.message, options);
    this.code = first.code;
    this.operation = first.operation;
    this.all = details;
  }
}

/** The error of every call after close(). */
export function closedError(owner: string): NftError {
  return new NftError([{ code: 'CLOSED', message: `${owner} is closed`, operation: null }]);
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
export type DescribeOperation = (operation: number) => string | null;

/** Converts an error of the addon to an NftError; any other value is returned unchanged. */
export function toNftError(
  error: unknown,
  table: ErrnoTable,
  describe: DescribeOperation = () => null,
): unknown {
  if (!isNativeFailure(error)) return error;
  const toDetail = (native: NativeDetail): NftErrorDetail => {
    const operation = describe(native.operation);
    const { element } = native;
    const message = [
      operation,
      native.expression >= 0 && `expression ${native.expression}`,
      element.length > 0 && `element 0x${Buffer.from(element).toString('hex')}`,
      table.messageOf(native.errno),
      native.text,
    ];
    return {
      code: table.nameOf(native.errno),
      message: message.filter((part) => part).join(': '),
      operation: operation === null ? null : native.operation,
    };
  };
  const [first, ...rest] = error.details.map(toDetail);
  const whole = { code: table.nameOf(error.errno), message: error.message, operation: null };
  return new NftError([first ?? whole, ...rest], { cause: error });
}

/**
 * The error for an answer of the kernel that is an errno, about one thing, with the kernel's own
 * text where it gave one: "link 7: No such device".
 */
export function plainError(errno: number, what: string, errnos: ErrnoTable, text = ''): NftError {
  const message = [what, errnos.messageOf(errno), text].filter((part) => part !== '').join(': ');
  return new NftError([{ code: errnos.nameOf(errno), message, operation: null }]);
}
