import assert from 'node:assert/strict';
import {
  BOOLEAN,
  COUNT,
  changed,
  checked,
  closed,
  decode,
  either,
  FLAG,
  InvalidError,
  integer,
  list,
  mapOf,
  nullable,
  number,
  type Of,
  object,
  oneOf,
  type Shape,
  TIME,
  text,
  tuple,
  where,
  word,
} from './shape.ts';

const PORT = integer(0, 65_535);
const PROBE = object(
  {
    kind: oneOf('tcp', 'http'),
    ports: list(PORT, 2),
    total: tuple(word(5, 1), COUNT),
    label: nullable(changed(text(6), (one) => one.toUpperCase())),
  },
  {
    isCut: FLAG,
    peers: either('peers', text(), list(text())),
    counts: mapOf(number(0)),
    state: object({ isOpen: BOOLEAN }, { since: TIME }),
  },
);
const VALID: Of<typeof PROBE> = { kind: 'tcp', ports: [22], total: ['r-1', 5], label: null };

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

describe('a shape', () => {
  it('has the type of its values', () => {
    interface Probe {
      readonly kind: 'tcp' | 'http';
      readonly ports: readonly number[];
      readonly total: readonly [string, number];
      readonly label: string | null;
      readonly isCut?: true;
      readonly peers?: string | readonly string[];
      readonly counts?: Readonly<Record<string, number>>;
      readonly state?: { readonly isOpen: boolean; readonly since?: string };
    }
    const isSame: Same<Of<typeof PROBE>, { [K in keyof Probe]: Probe[K] }> = true;
    const isOther: Same<Of<typeof PROBE>, { readonly kind: 'tcp' | 'http' }> = false;
    // @ts-expect-error: a text is not a count
    const wrong: Shape<number> = text();
    assert.deepEqual([isSame, isOther, wrong.wanted], [true, false, 'text']);
  });

  it('decodes known fields alone, in the order in which they are given', () => {
    const label = 'a\u00e9b';
    const given = {
      state: { isOpen: true, more: 1 },
      ...VALID,
      ports: [22, 80],
      total: ['r-1', 5, 'more'],
      label,
      counts: JSON.parse('{"__proto__": 1, "a": 2}'),
      peers: ['a'],
      isCut: 'yes',
      more: 1,
    };
    const decoded = decode(PROBE, given);
    assert.deepEqual(Object.keys(decoded), ['state', 'kind', 'ports', 'total', 'label', 'counts', 'peers']);
    assert.deepEqual(decoded.state, { isOpen: true });
    assert.deepEqual([decoded.total, decoded.label], [['r-1', 5], 'A\u00c9B']);
    assert.deepEqual(decode(PROBE, { ...VALID, isCut: true }), { ...VALID, isCut: true });
  });

  it('keeps unknown fields of a value that is only checked, and refuses them where it is closed', () => {
    const newer = { ...VALID, more: 1 };
    assert.equal(checked(PROBE, newer), newer);
    const shut = object({ of: closed({ a: COUNT }, { b: COUNT }) });
    assert.deepEqual(checked(shut, { of: { a: 1, b: 2 }, more: 1 }), { of: { a: 1, b: 2 }, more: 1 });
    assert.throws(() => checked(shut, { of: { a: 1, c: 2 } }), new InvalidError('of.c: must be absent'));
  });

  const REFUSED: readonly (readonly [unknown, string])[] = [
    [null, 'must be an object with fields'],
    [[], 'must be an object with fields'],
    [{ ...VALID, kind: 'udp' }, 'kind: must be tcp or http'],
    [{ ...VALID, kind: undefined }, 'kind: must be tcp or http'],
    [{ ...VALID, ports: [1, 2, 3] }, 'ports: must be a list of no more than 2'],
    [{ ...VALID, ports: [1, 65_536] }, 'ports[1]: must be a whole number from 0 to 65535'],
    [{ ...VALID, total: ['r-1'] }, 'total: must be a list of 2 items'],
    [{ ...VALID, total: ['', 5] }, 'total[0]: must be a word of 1 to 5 characters'],
    [{ ...VALID, total: ['a b', 5] }, 'total[0]: must be a word of 1 to 5 characters'],
    [{ ...VALID, total: ['r-1', 1.5] }, `total[1]: must be a whole number from 0 to ${2 ** 53 - 1}`],
    [{ ...VALID, label: 'too long' }, 'label: must be text of at most 6 characters, or null'],
    // Four emoji are eight code units: that is what a text costs.
    [{ ...VALID, label: '\u{1f600}'.repeat(4) }, 'label: must be text of at most 6 characters, or null'],
    [{ ...VALID, peers: 1 }, 'peers: must be peers'],
    [{ ...VALID, peers: [1] }, 'peers: must be peers'],
    [{ ...VALID, counts: { a: -1 } }, `counts.a: must be a number from 0 to ${2 ** 53 - 1}`],
    [{ ...VALID, counts: { a: Number.NaN } }, `counts.a: must be a number from 0 to ${2 ** 53 - 1}`],
    [{ ...VALID, state: { isOpen: 1 } }, 'state.isOpen: must be true or false'],
    [{ ...VALID, state: { isOpen: true, since: 'now' } }, 'state.since: must be a time (ISO 8601, UTC)'],
    [
      { kind: 1, ports: 1 },
      'kind: must be tcp or http; ports: must be a list of no more than 2; ' +
        'total: must be a list of 2 items; label: must be text of at most 6 characters, or null',
    ],
  ];
  for (const [value, message] of REFUSED)
    it(`refuses ${JSON.stringify(value)}`, () => {
      assert.throws(() => decode(PROBE, value), new InvalidError(message));
      assert.throws(() => checked(PROBE, value, 'the probe'), new InvalidError(`the probe: ${message}`));
      assert.ok(!PROBE.accepts(value));
    });

  it('of times accepts those of JSON and of records alone', () => {
    const valid = ['2026-01-02T03:04:05Z', '2026-12-31T23:59:59.999Z', '2024-02-29T00:00:00.000001Z'];
    for (const one of valid) assert.ok(TIME.accepts(one) && Date.parse(one) > 0, one);
    const wrong = ['', '2026', '2026-01-02', '2026-13-01T00:00:00Z', '2026-01-32T00:00:00Z'];
    for (const one of [...wrong, '2026-01-02T24:00:00Z', '2026-01-02T03:04:05', 'Fri, 02 Jan 2026'])
      assert.ok(!TIME.accepts(one), one);
  });

  it('holds every condition that is put on it', () => {
    const short = where(text(4), 'an even text', (one) => one.length % 2 === 0);
    assert.deepEqual(
      ['ab', 'abc', 'abcdef'].map((one) => short.accepts(one)),
      [true, false, false],
    );
  });

  it('names no more than ten problems, and does not search for more', () => {
    let tests = 0;
    const counting = where(text(), 'another', () => {
      tests++;
      return false;
    });
    const { message } = failure(list(counting), Array(1e5).fill(''));
    // The list stops at its first item; that is tested again, twice, for the message.
    assert.deepEqual([message.split('; ').length, tests], [10, 12]);
  });

  it('shows a key that a stranger chose on one line, and cut', () => {
    const { message } = failure(mapOf(COUNT), { [`\u001b[2J\n${'x'.repeat(1e5)}`]: '' });
    assert.match(message, /^\["\\u001b\[2J\\n?x*…"\]: must be a whole number/);
    assert.ok(message.length < 200, message);
  });
});

function failure(shape: Shape<unknown>, value: unknown): Error {
  try {
    checked(shape, value);
  } catch (error) {
    if (error instanceof InvalidError) return error;
  }
  return assert.fail('it is valid');
}
