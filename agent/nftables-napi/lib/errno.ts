import type { Binding } from './binding.ts';
import { NftError, type NftErrorDetail, plainDetail } from './errors.ts';

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

/**
 * Converts an error of the addon to an NftError; any other value is returned unchanged. `describe`
 * describes the operation at an index of the batch.
 */
export function toNftError(
  error: unknown,
  table: ErrnoTable,
  describe: (operation: number) => { text: string; set: string | null } | null = () => null,
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
