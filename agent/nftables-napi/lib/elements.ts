import { type Binding, loadBinding, type NativeElements, requireName, toFamilyNumber } from './binding.ts';
import { NftError } from './errors.ts';
import { type MapVerdict, toVerdicts } from './expression.ts';
import {
  attribute,
  eachAttribute,
  type NetlinkMessage,
  NLM_F_DUMP,
  NLM_F_REQUEST,
  netlinkMessages,
  textBytes,
  toMessage,
} from './netlink-message.ts';
import type { SetName } from './operation.ts';
import { RawSocket } from './raw-socket.ts';

/** All elements of a set at one moment. */
export interface Elements {
  /** Length of a key in bytes. */
  keyLength: number;
  /** Concatenated keys in network byte order, sorted. Empty for an interval set. */
  keys: Uint8Array;
  /**
   * Pairs of first and last key, both inclusive, sorted; adjacent ranges are not merged. Empty
   * unless it is an interval set.
   */
  ranges: Uint8Array;
  isInterval: boolean;
  isMap: boolean;
  /** The set has an element `*`, which matches every other key and is not among the keys. */
  hasCatchAll: boolean;
  /** For a verdict map: one per key or range. Absent for every other set. */
  verdicts?: MapVerdict[];
}

/** Converts the addon's answer. */
export function toElements(native: NativeElements, binding: Binding): Elements {
  const { interval, map, object } = binding.setFlags;
  return {
    keyLength: native.keyLength,
    keys: native.keys,
    ranges: native.ranges,
    isInterval: (native.flags & interval) !== 0,
    isMap: (native.flags & (map | object)) !== 0,
    hasCatchAll: native.catchAll,
    ...(native.isVerdictMap ? { verdicts: toVerdicts(native, binding) } : {}),
  };
}

/** An element of a set whose elements have a timeout. */
export interface TimedElement {
  readonly key: Uint8Array;
  /** The rest of its time; Infinity: it has no end. */
  readonly milliseconds: number;
}

/** NETLINK_NETFILTER of linux/netlink.h. */
const NETFILTER = 12;
/** NFNL_SUBSYS_NFTABLES << 8, with NFT_MSG_*. */
const NEW_ELEMENTS = 0xa0c;
const GET_ELEMENTS = 0xa0d;
/** struct nfgenmsg. */
const GENERIC_HEADER = 4;
/** enum nft_set_elem_list_attributes, nft_set_elem_attributes, nft_data_attributes. */
const LIST = { table: 1, set: 2, elements: 3 } as const;
const ELEMENT = { key: 1, expiration: 5 } as const;
const VALUE = 1;
const ATTEMPTS = 10;

/**
 * Reads elements with what is left of their time, which Netlink.elements does not tell. In the
 * network namespace in which this object is created; needs CAP_NET_ADMIN. The constructor throws an
 * NftError if the socket cannot be opened.
 */
export class TimedElements {
  readonly #binding = loadBinding();
  readonly #socket = new RawSocket(NETFILTER, 'TimedElements');

  /** In no order; null if the set or its table does not exist. For small sets without intervals. */
  async read({ family, table, set }: SetName): Promise<readonly TimedElement[] | null> {
    requireName(table, 'table');
    requireName(set, 'set');
    const header = Uint8Array.of(toFamilyNumber(family, this.#binding), 0, 0, 0);
    const names = [attribute(LIST.table, textBytes(table)), attribute(LIST.set, textBytes(set))];
    const request = toMessage(GET_ELEMENTS, NLM_F_REQUEST | NLM_F_DUMP, [header, ...names]);
    for (let attempt = 1; ; attempt++) {
      try {
        const chunks = await this.#socket.whole(request);
        return chunks.flatMap((chunk) => [...netlinkMessages(chunk)].flatMap(toTimedElements));
      } catch (error) {
        if (!(error instanceof NftError)) throw error;
        if (error.code === 'ENOENT') return null;
        // A commit fell into the dump.
        if (error.code !== 'EINTR' || attempt === ATTEMPTS) throw error;
      }
    }
  }

  /** Waits for pending calls, then closes the socket. Idempotent. */
  close(): Promise<void> {
    return this.#socket.close();
  }
}

function toTimedElements({ type, view, start, end }: NetlinkMessage): TimedElement[] {
  const elements: TimedElement[] = [];
  if (type !== NEW_ELEMENTS) return elements;
  eachAttribute(view, start + GENERIC_HEADER, end, (list, first, last) => {
    if (list !== LIST.elements) return;
    eachAttribute(view, first, last, (_, from, to) => {
      const element = toElement(view, from, to);
      if (element !== null) elements.push(element);
    });
  });
  return elements;
}

function toElement(view: DataView, start: number, end: number): TimedElement | null {
  let key: Uint8Array | null = null;
  let milliseconds = Number.POSITIVE_INFINITY;
  eachAttribute(view, start, end, (type, from, to) => {
    if (type === ELEMENT.expiration && to - from === 8) milliseconds = Number(view.getBigUint64(from));
    if (type !== ELEMENT.key) return;
    eachAttribute(view, from, to, (data, first, last) => {
      if (data === VALUE) key = new Uint8Array(view.buffer, view.byteOffset + first, last - first).slice();
    });
  });
  return key === null ? null : { key, milliseconds };
}
