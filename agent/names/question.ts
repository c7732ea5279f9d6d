/** The question of a DNS answer from which addresses may be learnt. */
export interface Question {
  /** The ID of the message. */
  readonly id: number;
  /** Lower case, without a trailing dot. */
  readonly name: string;
  /** Number of records in the answer section, according to the header. */
  readonly answers: number;
  /** The TC flag: records were left out for lack of room. */
  readonly isCut: boolean;
}

type Asked = Question | 'garbage' | 'nothing';

const HEADER = 12;
const IS_ANSWER = 0x8000;
const OPCODE = 0x7800;
const TRUNCATED = 0x0200;
const RCODE = 0x000f;
const IN = 1;
/** A, AAAA and ANY. */
const TYPES: ReadonlySet<number> = new Set([1, 28, 255]);
const MAX_NAME = 255;
const MAX_LABEL = 63;
/** Bytes of the smallest record: a pointer for its name, type, class, TTL, length. */
const LEAST_RECORD = 12;

/**
 * Parses a DNS answer up to its question, so that answers for other names cost a microsecond.
 * `nothing`: a failure, an answer without records, or one to another kind of question. Names with
 * other bytes than letters, digits, `-` and `_` are garbage: a label may contain a dot, and would
 * look like two labels.
 */
export function questionOf(message: Uint8Array): Asked {
  if (message.length < HEADER) return 'garbage';
  const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
  const flags = view.getUint16(2);
  const answers = view.getUint16(6);
  if ((flags & IS_ANSWER) === 0 || (flags & OPCODE) !== 0 || view.getUint16(4) !== 1) return 'garbage';
  if ((flags & RCODE) !== 0 || answers === 0) return 'nothing';
  if (answers * LEAST_RECORD > message.length) return 'garbage';
  const read = readName(message, HEADER);
  if (read === null || read.end + 4 > message.length) return 'garbage';
  const isAsked = TYPES.has(view.getUint16(read.end)) && view.getUint16(read.end + 2) === IN;
  if (!isAsked) return 'nothing';
  return { id: view.getUint16(0), name: read.name, answers, isCut: (flags & TRUNCATED) !== 0 };
}

/** The name and ID of a DNS question; null if the message is not a question. */
export function askedFor(message: Uint8Array): Pick<Question, 'id' | 'name'> | null {
  if (message.length < HEADER) return null;
  const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
  if ((view.getUint16(2) & (IS_ANSWER | OPCODE)) !== 0 || view.getUint16(4) !== 1) return null;
  const read = readName(message, HEADER);
  return read === null ? null : { id: view.getUint16(0), name: read.name };
}

/**
 * Reads a name without compression pointers: the question comes first, so there is nothing to point
 * at.
 */
function readName(message: Uint8Array, from: number): { readonly name: string; readonly end: number } | null {
  let name = '';
  let at = from;
  for (;;) {
    const length = message[at++];
    if (length === 0) return { name, end: at };
    if (length === undefined || length > MAX_LABEL || at - from + length > MAX_NAME) return null;
    if (name !== '') name += '.';
    for (const end = at + length; at < end; at++) {
      const byte = toLower(message[at] ?? 0);
      if (byte === null) return null;
      name += String.fromCharCode(byte);
    }
  }
}

function toLower(byte: number): number | null {
  const isUpper = byte >= 65 && byte <= 90;
  if (isUpper) return byte + 32;
  const isPlain = (byte >= 97 && byte <= 122) || (byte >= 48 && byte <= 57) || byte === 45 || byte === 95;
  return isPlain ? byte : null;
}
