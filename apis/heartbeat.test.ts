import assert from 'node:assert/strict';
import { LEASE_ANSWER, type LeaseRequest, parseLeaseRequest } from './heartbeat.ts';
import { checked, InvalidError } from './schema/shape.ts';

const REQUEST: LeaseRequest = {
  node: 'n1',
  boot: '5b1c',
  sent: 12.5,
  held: [{ gateway: 'g', slot: '0', epoch: 1, addresses: ['198.51.100.1'], milliseconds: 1500 }],
  ready: [{ gateway: 'g', ready: false, reason: 'AddressConflict' }],
  unreachable: ['n2'],
  extendSeconds: 30,
};

describe('the request and the answer of a lease', () => {
  it('are taken as they are, also from a newer version', () => {
    assert.deepEqual(parseLeaseRequest(REQUEST, 'n1'), REQUEST);
    const newer = { ...REQUEST, more: 1 };
    assert.deepEqual(parseLeaseRequest(newer, 'n1'), newer);
    const answer = { grants: REQUEST.held };
    assert.deepEqual(checked(LEASE_ANSWER, answer), answer);
  });

  const many = <T>(item: T): T[] => Array.from({ length: 4097 }, () => item);
  const WRONG: Record<string, unknown> = {
    'another node': { ...REQUEST, node: 'n2' },
    'no boot': { ...REQUEST, boot: undefined },
    'a time before the boot': { ...REQUEST, sent: -1 },
    'no number': { ...REQUEST, sent: Number.NaN },
    'an endless lease': { ...REQUEST, held: [{ ...REQUEST.held[0], milliseconds: 3_600_001 }] },
    'a long extension': { ...REQUEST, extendSeconds: 61 },
    'a reason with escapes': { ...REQUEST, ready: [{ gateway: 'g', ready: false, reason: '\u001b[2J' }] },
    'too many slots': { ...REQUEST, held: many(REQUEST.held[0]) },
    'too many nodes': { ...REQUEST, unreachable: many('n2') },
    text: 'x',
    nothing: null,
  };
  for (const [what, value] of Object.entries(WRONG))
    it(`are refused: ${what}`, () => assert.throws(() => parseLeaseRequest(value, 'n1'), InvalidError));

  it('are refused: an answer without grants', () => assert.ok(!LEASE_ANSWER.accepts({})));
});
