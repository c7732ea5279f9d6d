/** Sets as `ipset save` could give them: every type, options and entries in ipset's spelling. */
import fc from 'fast-check';
import { ENTRY_OPTIONS, FIELDS } from '../lib/entry.ts';
import type { SavedSet, SetType } from '../lib/index.ts';
import { CREATE_OPTIONS, SET_TYPES } from '../lib/set.ts';

type Values = Readonly<Record<string, fc.Arbitrary<unknown>>>;

const u32 = fc.integer({ min: 0, max: 2 ** 32 - 1 });
const counter = fc.bigInt({ min: 0n, max: 2n ** 64n - 2n });
const present = fc.constant(true);
const net = fc.tuple(fc.ipV4(), fc.integer({ min: 1, max: 32 })).map(([ip, length]) => `${ip}/${length}`);
const timeout = fc.integer({ min: 0, max: 2_147_483 });
const hex = (max: number) => fc.integer({ min: 0, max }).map((value) => value.toString(16));
const octet = fc
  .integer({ min: 0, max: 255 })
  .map((value) => value.toString(16).padStart(2, '0').toUpperCase());

const name = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }).filter((text) => {
  return Buffer.byteLength(text) <= 31 && !text.startsWith('-') && /^[^\s"\p{Cc}]+$/u.test(text);
});
const comment = fc
  .oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom('comment "x"', ' timeout 5 ', 'a\\', '-x y', 'add a 1'),
  )
  .map((text) => text.replaceAll(/["\n\r\0]/g, "'").toWellFormed())
  .filter((text) => text !== '' && Buffer.byteLength(text) <= 255 && !/^-\S*$/.test(text));

const SET_VALUES: Values = {
  range: fc.constant('10.0.0.0-10.0.0.255'),
  family: fc.constantFrom('inet', 'inet6'),
  hashsize: u32,
  maxelem: u32,
  netmask: fc.integer({ min: 1, max: 128 }),
  bitmask: fc.oneof(fc.ipV4(), fc.ipV6()),
  markmask: u32,
  timeout,
  counters: present,
  comment: present,
  forceadd: present,
  skbinfo: present,
  bucketsize: u32,
  initval: u32,
  size: u32,
};

const FIELD_VALUES: Values = {
  ip: fc.oneof(fc.ipV4(), fc.ipV6()),
  ip2: fc.oneof(fc.ipV4(), fc.ipV6()),
  net,
  net2: net,
  port: fc.oneof(
    fc.integer({ min: 0, max: 65_535 }).map((port) => `udp:${port}`),
    fc.constantFrom('icmp:echo-request', 'ipv6-icmp:77/3', 'gre:0', '200:0'),
  ),
  mac: fc.array(octet, { minLength: 6, maxLength: 6 }).map((octets) => octets.join(':')),
  mark: u32,
  iface: fc.stringMatching(/^[a-z][a-z0-9.:-]{0,14}$/),
  set: name,
};

const OPTION_VALUES: Values = {
  timeout,
  nomatch: present,
  wildcard: present,
  packets: counter,
  bytes: counter,
  comment,
  skbmark: fc.tuple(hex(2 ** 32 - 1), hex(2 ** 32 - 1)).map(([mark, mask]) => `0x${mark}/0x${mask}`),
  skbprio: fc.tuple(hex(65_535), hex(65_535)).map(([major, minor]) => `${major}:${minor}`),
  skbqueue: fc.integer({ min: 0, max: 65_535 }),
};

function pick(values: Values, names: readonly string[]): Record<string, fc.Arbitrary<unknown>> {
  return Object.fromEntries(names.flatMap((one) => (values[one] === undefined ? [] : [[one, values[one]]])));
}

function ofType(type: SetType): fc.Arbitrary<SavedSet> {
  const isPort = type === 'bitmap:port';
  const fields: Values = isPort
    ? { port: fc.integer({ min: 0, max: 65_535 }) }
    : pick(FIELD_VALUES, FIELDS[type]);
  const options: Values = {
    ...pick(OPTION_VALUES, ENTRY_OPTIONS),
    ...(type === 'hash:net,iface' ? { physdev: present } : {}),
  };
  const entry = fc.record(
    { ...fields, ...options },
    { requiredKeys: Object.keys(fields), noNullPrototype: true },
  );
  const values = { ...SET_VALUES, ...(isPort ? { range: fc.constant('0-1024') } : {}) };
  const header = pick(values, CREATE_OPTIONS[type]);
  const required = Object.keys(header).filter((option) => option === 'range');
  return fc
    .tuple(
      name,
      fc.record(header, { requiredKeys: required, noNullPrototype: true }),
      fc.array(entry, { maxLength: 4 }),
    )
    .map(
      ([setName, chosen, entries]) => ({ name: setName, type, ...chosen, entries }) as unknown as SavedSet,
    );
}

export const savedSets: fc.Arbitrary<SavedSet[]> = fc.array(fc.oneof(...SET_TYPES.map(ofType)), {
  maxLength: 5,
});
