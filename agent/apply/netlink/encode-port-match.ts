import type { Expression } from 'nftables-napi';
import type { Family } from '../../../lib/net/address.ts';
import type { MatchOf } from '../../render/ruleset.ts';
import {
  concatenated,
  concatenatedElements,
  DATA_TYPE,
  HEADER,
  packPort,
  portElements,
  TYPE_OF_PROTOCOL,
  typeOf,
} from './encode-set.ts';
import {
  addAnonymous,
  addCompare,
  addField,
  addNamedLookup,
  addProtocol,
  address,
  meta,
  ORIGINAL_PORT,
  PORT_OFFSET,
  PROTOCOL,
  port,
  REGISTER,
  type RuleEncoding,
  requireFamily,
  requireProtocol,
} from './rule-encoding.ts';

const PORT_FIELD = { sport: 1, dport: 2 } as const;
const TYPE_OF_ORIGINAL_PORT = typeOf.ct(12, 0);

export function addPorts(
  encoding: RuleEncoding,
  { protocol, field, ranges, isProtocolKnown }: MatchOf<'port'>,
): void {
  if (!isProtocolKnown) requireProtocol(encoding, protocol);
  const [only] = ranges;
  if (only !== undefined && ranges.length === 1 && only[0] === only[1]) {
    addField(encoding, PORT_OFFSET[field], packPort(only[0]));
    return;
  }
  encoding.expressions.push(port(field));
  const header = isProtocolKnown ? HEADER.th : HEADER[protocol];
  addPortRanges(encoding, ranges, typeOf.payload(header, PORT_FIELD[field]));
}

export function addOriginalPorts(
  encoding: RuleEncoding,
  { protocol, ranges }: MatchOf<'originalPort'>,
): void {
  addProtocol(encoding, protocol);
  encoding.expressions.push(ORIGINAL_PORT);
  addPortRanges(encoding, ranges, TYPE_OF_ORIGINAL_PORT);
}

/** Compares the port in the register. */
function addPortRanges(encoding: RuleEncoding, ranges: MatchOf<'port'>['ranges'], origin: Uint8Array): void {
  const [only] = ranges;
  if (only !== undefined && ranges.length === 1) {
    const [first, last] = only;
    if (first === last) {
      addCompare(encoding, packPort(first), false);
      return;
    }
    encoding.expressions.push(
      { kind: 'cmp', register: REGISTER, operator: 'gte', value: packPort(first) },
      { kind: 'cmp', register: REGISTER, operator: 'lte', value: packPort(last) },
    );
    return;
  }
  addAnonymous(encoding, { type: DATA_TYPE.port, length: 2, typeOf: origin }, portElements(ranges));
}

/**
 * Each field after the first begins at the next multiple of 4 bytes: register 9 is the second
 * 32-bit piece of register 1, 10 the third.
 */
export function addPortTuples(
  encoding: RuleEncoding,
  { withSourcePort, tuples }: MatchOf<'portTuple'>,
): void {
  const fields = withSourcePort ? (['sport', 'dport'] as const) : (['dport'] as const);
  const ends = tuples.map(({ protocol, sourcePorts, ports }) => {
    const ranges = withSourcePort ? [sourcePorts, ports] : [ports];
    return ([0, 1] as const).map((end) =>
      Uint8Array.from([
        ...[PROTOCOL[protocol], 0, 0, 0],
        ...ranges.flatMap((range) => [...packPort(range[end]), 0, 0]),
      ]),
    );
  });
  const interval = ends.some(
    ([first, last]) => Buffer.compare(first as Uint8Array, last as Uint8Array) !== 0,
  );
  const types = [DATA_TYPE.protocol, ...fields.map(() => DATA_TYPE.port)];
  const origin = typeOf.concatenation(
    TYPE_OF_PROTOCOL,
    ...fields.map((field) => typeOf.payload(HEADER.th, PORT_FIELD[field])),
  );
  encoding.expressions.push(meta('l4proto'));
  // Ranges are compared in network byte order. For a single byte the conversion has no effect, but
  // libnftables does it, and then can't record the origin of the key.
  if (interval) {
    encoding.expressions.push({
      kind: 'byteorder',
      register: REGISTER,
      operation: 'hton',
      length: 1,
      size: 2,
    });
  }
  encoding.expressions.push(...fields.map((field, i) => port(field, 9 + i)));
  const key = {
    type: concatenated(...types),
    length: 4 * types.length,
    fields: [1, ...fields.map(() => 2)],
    ...(interval ? {} : { typeOf: origin }),
  };
  addAnonymous(encoding, key, concatenatedElements(ends, interval));
}

/**
 * Loads address, protocol and port side by side. After a 4-byte address they are in the 32-bit
 * registers 9 and 10, after a 16-byte one in register 2, which is the 32-bit register 12, and in
 * 13.
 */
const SERVICE: Readonly<Record<Family, readonly Expression[]>> = {
  4: [address(4, 'daddr'), { kind: 'meta', key: 'l4proto', register: 9 }, port('dport', 10)],
  6: [address(6, 'daddr'), { kind: 'meta', key: 'l4proto', register: 2 }, port('dport', 13)],
};

export function addService(encoding: RuleEncoding, { family, set }: MatchOf<'serviceTuple'>): void {
  requireFamily(encoding, family);
  encoding.expressions.push(...SERVICE[family]);
  addNamedLookup(encoding, set);
}
