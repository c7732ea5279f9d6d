import { endianness } from 'node:os';

/** NLA_F_NESTED of linux/netlink.h, set as libmnl does. */
const NESTED = 0x8000;
/** Limit in bytes: the length of an attribute is a 16-bit field. */
const ATTRIBUTE_LIMIT = 0xffff;
/**
 * Limit in bytes of a TLV's value: NFT_USERDATA_MAXLEN of linux/netfilter/nf_tables.h is 256,
 * including the type and the length.
 */
const USERDATA_LIMIT = 254;
/** Bytes of a record's header, as src/core/steps.cc reads it. */
const HEADER_SIZE = 32;
const isLittle = endianness() === 'LE';

/** The header of a record. */
interface RecordHeader {
  /** The index of the operation, used in errors. */
  operation: number;
  /** NFT_MSG_*. */
  message: number;
  /** NLM_F_* besides NLM_F_REQUEST. */
  flags: number;
  family: number;
}

/** The elements of a record; a record without them is a message of its attributes only. */
interface RecordElements {
  shape: 'keys' | 'ranges' | 'concatenatedRanges';
  /** Write the ranges as libnftables writes a whole anonymous set. */
  whole: boolean;
  keyLength: number;
  data: Uint8Array;
  /** For each key or range an index into `values`; null for a set. */
  valuesOf: Uint32Array | null;
  /** Number of values, and a function that writes each as one attribute. */
  values: { count: number; write(index: number): void };
}

const shapes = { keys: 1, ranges: 2, concatenatedRanges: 3 } as const;

/**
 * Netlink messages, packed one after another into one buffer that grows: 10,000 rules go to the
 * addon as one array. A record is a header in the machine's byte order (src/core/steps.cc), then
 * the attributes in the kernel's format: numbers in network byte order, each attribute padded to 4
 * bytes.
 */
export class RecordWriter {
  #bytes = new Uint8Array(4096);
  #length = 0;
  #begin = 0;

  /** The records so far: a view that is valid until the next write. */
  get records(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  begin({ operation, message, flags, family }: RecordHeader): void {
    this.#begin = this.#length;
    this.#reserve(HEADER_SIZE);
    this.#zero(HEADER_SIZE);
    const at = this.#begin;
    this.#native32(at, operation);
    this.#native16(at + 4, message);
    this.#native16(at + 6, flags);
    this.#bytes[at + 8] = family;
    this.#length = at + HEADER_SIZE;
  }

  /** Ends the record. `elements` follow the attributes. */
  end(elements?: RecordElements): void {
    const at = this.#begin;
    this.#native32(at + 12, this.#length - at - HEADER_SIZE);
    if (elements === undefined) return;
    const { shape, whole, keyLength, data, valuesOf, values } = elements;
    this.#bytes[at + 9] = shapes[shape];
    this.#bytes[at + 10] = whole ? 1 : 0;
    this.#native32(at + 28, keyLength);
    this.#native32(at + 16, data.length);
    this.#copy(data);
    if (valuesOf === null) return;
    this.#native32(at + 20, 4 * valuesOf.length);
    const offsets = this.#length;
    this.#reserve(4 * valuesOf.length);
    this.#length += 4 * valuesOf.length;
    const begin = this.#length;
    const valueAt = new Uint32Array(values.count);
    for (let i = 0; i < values.count; i++) {
      valueAt[i] = this.#length - begin;
      values.write(i);
    }
    this.#native32(at + 24, this.#length - begin);
    for (let i = 0; i < valuesOf.length; i++) {
      this.#native32(offsets + 4 * i, valueAt[valuesOf[i] as number] as number);
    }
  }

  u8(type: number, value: number): void {
    this.#attribute(type, 1);
    this.#bytes[this.#length++] = value;
    this.#pad(1);
  }

  u16(type: number, value: number): void {
    this.#attribute(type, 2);
    this.#bytes[this.#length++] = value >>> 8;
    this.#bytes[this.#length++] = value;
    this.#pad(2);
  }

  u32(type: number, value: number): void {
    this.#attribute(type, 4);
    this.#network32(value);
  }

  /** Takes integers up to 2 ** 53 - 1, and bigints. */
  u64(type: number, value: number | bigint): void {
    this.#attribute(type, 8);
    const wide = BigInt(value);
    this.#network32(Number(wide >> 32n));
    this.#network32(Number(wide & 0xffffffffn));
  }

  /** Writes the string and a NUL. */
  text(type: number, value: string): void {
    const start = this.#length;
    // At most three bytes per UTF-16 code unit.
    this.#attribute(type, 3 * value.length + 1);
    this.#string(value);
    this.#native16(start, this.#length - start);
    this.#pad(this.#length - start);
  }

  bytes(type: number, value: Uint8Array): void {
    this.#attribute(type, value.length);
    this.#copy(value);
  }

  /** Begins a nested attribute; pass the result to endNest(). */
  beginNest(type: number): number {
    const start = this.#length;
    this.#attribute(type | NESTED, 0);
    return start;
  }

  /** Throws a RangeError if the content exceeds the limit of an attribute. */
  endNest(start: number): void {
    const length = this.#length - start;
    if (length > ATTRIBUTE_LIMIT) {
      throw new RangeError(`${length} bytes are more than a netlink attribute can hold (${ATTRIBUTE_LIMIT})`);
    }
    this.#native16(start, length);
  }

  /**
   * Begins an attribute of TLVs, which libnftables stores with its rules and sets
   * (libnftnl/udata.h): one byte type, one byte length, value. Pass the result to endUserdata().
   */
  beginUserdata(type: number): number {
    const start = this.#length;
    this.#attribute(type, 0);
    return start;
  }

  endUserdata(start: number): void {
    this.#native16(start, this.#length - start);
    this.#pad(this.#length - start);
  }

  userdata(type: number, value: Uint8Array): void {
    this.#reserve(2 + value.length);
    this.#bytes[this.#length++] = type;
    this.#bytes[this.#length++] = value.length;
    for (const byte of value) this.#bytes[this.#length++] = byte;
  }

  /** Writes a 32-bit number in the machine's byte order. */
  userdata32(type: number, value: number): void {
    this.#reserve(6);
    this.#bytes[this.#length++] = type;
    this.#bytes[this.#length++] = 4;
    this.#native32(this.#length, value);
    this.#length += 4;
  }

  /** Writes the string and a NUL. Throws a RangeError if it exceeds the kernel's limit. */
  userdataText(type: number, value: string): void {
    this.#reserve(3 + 3 * value.length);
    const start = this.#length;
    this.#bytes[start] = type;
    this.#length += 2;
    this.#string(value);
    const length = this.#length - start - 2;
    if (length > USERDATA_LIMIT)
      throw new RangeError(`a text of ${length - 1} bytes exceeds the limit of 253 bytes`);
    this.#bytes[start + 1] = length;
  }

  /** The caller has reserved the room. */
  #string(value: string): void {
    const begin = this.#length;
    for (let i = 0; i < value.length; i++) {
      const code = value.charCodeAt(i);
      if (code > 0x7f) {
        this.#length = begin + Buffer.from(this.#bytes.buffer, begin).write(value);
        break;
      }
      this.#bytes[this.#length++] = code;
    }
    this.#bytes[this.#length++] = 0;
  }

  #attribute(type: number, length: number): void {
    if (length + 4 > ATTRIBUTE_LIMIT) {
      throw new RangeError(`${length} bytes are more than a netlink attribute can hold (${ATTRIBUTE_LIMIT})`);
    }
    this.#reserve(length + 8);
    this.#native16(this.#length, length + 4);
    this.#native16(this.#length + 2, type);
    this.#length += 4;
  }

  #copy(value: Uint8Array): void {
    this.#reserve(value.length + 4);
    // For a short key, a call of set() costs more than a loop.
    if (value.length <= 16) {
      for (let i = 0; i < value.length; i++) this.#bytes[this.#length + i] = value[i] as number;
    } else {
      this.#bytes.set(value, this.#length);
    }
    this.#length += value.length;
    this.#pad(value.length);
  }

  /** Writes the padding, since the buffer is not always zero. */
  #pad(length: number): void {
    for (let rest = length & 3; rest !== 0 && rest < 4; rest++) this.#bytes[this.#length++] = 0;
  }

  #zero(length: number): void {
    this.#bytes.fill(0, this.#length, this.#length + length);
  }

  #network32(value: number): void {
    const bytes = this.#bytes;
    bytes[this.#length++] = value >>> 24;
    bytes[this.#length++] = value >>> 16;
    bytes[this.#length++] = value >>> 8;
    bytes[this.#length++] = value;
  }

  #native32(at: number, value: number): void {
    this.#native16(at + (isLittle ? 0 : 2), value & 0xffff);
    this.#native16(at + (isLittle ? 2 : 0), value >>> 16);
  }

  #native16(at: number, value: number): void {
    this.#bytes[at + (isLittle ? 0 : 1)] = value;
    this.#bytes[at + (isLittle ? 1 : 0)] = value >>> 8;
  }

  #reserve(more: number): void {
    const needed = this.#length + more;
    if (needed <= this.#bytes.length) return;
    const larger = new Uint8Array(Math.max(needed, 2 * this.#bytes.length));
    larger.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = larger;
  }
}
