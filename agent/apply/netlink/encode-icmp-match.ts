import type { MatchOf } from '../../render/ruleset.ts';
import { concatenated, concatenatedElements, DATA_TYPE, HEADER, typeOf } from './encode-set.ts';
import { addAnonymous, addField, payload, type RuleEncoding, requireIcmp } from './rule-encoding.ts';

export function addIcmp(encoding: RuleEncoding, { protocol, types }: MatchOf<'icmp'>): void {
  requireIcmp(encoding, protocol);
  const [only] = types;
  if (types.every(({ code }) => code === null)) {
    addMessageTypes(
      encoding,
      types.map(({ type }) => type),
      DATA_TYPE.icmpType[protocol],
      HEADER[protocol],
    );
    return;
  }
  if (only !== undefined && types.length === 1) {
    addField(encoding, 0, Uint8Array.of(only.type));
    addField(encoding, 1, Uint8Array.of(only.code ?? 0));
    return;
  }
  const ends = types.map(({ type, code }) => [
    Uint8Array.of(type, 0, 0, 0, code ?? 0, 0, 0, 0),
    Uint8Array.of(type, 0, 0, 0, code ?? 255, 0, 0, 0),
  ]);
  encoding.expressions.push(payload('transport', 0, 1), payload('transport', 1, 1, 9));
  const key = {
    type: concatenated(DATA_TYPE.icmpType[protocol], DATA_TYPE.icmpCode[protocol]),
    length: 8,
    fields: [1, 1],
    typeOf: typeOf.concatenation(typeOf.payload(HEADER[protocol], 1), typeOf.payload(HEADER[protocol], 2)),
  };
  const interval = types.some(({ code }) => code === null);
  addAnonymous(encoding, key, concatenatedElements(ends, interval));
}

export function addIgmp(encoding: RuleEncoding, { types }: MatchOf<'igmp'>): void {
  requireIcmp(encoding, 'igmp');
  addMessageTypes(encoding, types, DATA_TYPE.igmpType, HEADER.igmp);
}

/** Compares the first byte of the header. */
function addMessageTypes(
  encoding: RuleEncoding,
  types: readonly number[],
  dataType: number,
  description: number,
): void {
  const [only] = types;
  if (only !== undefined && types.length === 1) {
    addField(encoding, 0, Uint8Array.of(only));
    return;
  }
  encoding.expressions.push(payload('transport', 0, 1));
  const key = { type: dataType, length: 1, typeOf: typeOf.payload(description, 1) };
  addAnonymous(encoding, key, { shape: 'keys', keys: Uint8Array.from(types) });
}
