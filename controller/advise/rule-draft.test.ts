import assert from 'node:assert/strict';
import { parseAddress } from '../../lib/net/address.ts';
import { seenKind } from '../../test/fake/record.ts';
import { joinDrafts, type RuleDraft, toAdvisedRule } from './rule-draft.ts';
import { evidenceOf } from './seen-service.ts';

function draft(peers: readonly string[], ports: readonly number[]): RuleDraft {
  return {
    direction: 'ingress',
    traffic: 'Host',
    form: 'ports',
    peers: new Map(peers.map((name) => [name, { nodeSelector: { matchLabels: { name } } }])),
    services: ports.map((port) => ({
      service: { direction: 'ingress', traffic: 'Host', protocol: 'tcp', port, type: null },
      evidence: [],
      nodeCount: 1,
    })),
    avoid: [],
    unseen: 0,
  };
}

const text = ({ peers, services, unseen }: RuleDraft): string =>
  `${[...peers.keys()].sort().join()} ${services
    .map(({ service }) => service.port)
    .sort()
    .join()} ${unseen}`;

describe('joined drafts', () => {
  it('are those that allow the fewest pairs which were not seen, and count them', () => {
    const drafts = [
      draft(['a', 'b', 'c'], [1]),
      draft(['a', 'b'], [2]),
      draft(['x'], [3]),
      draft(['y', 'z'], [4, 5]),
    ];
    assert.deepEqual(joinDrafts(drafts, 3).map(text), ['a,b,c 1,2 1', 'x 3 0', 'y,z 4,5 0']);
    assert.deepEqual(joinDrafts(drafts, 2).map(text), ['a,b,c 1,2 1', 'x,y,z 3,4,5 4']);
    assert.deepEqual(joinDrafts(drafts, 4).map(text), drafts.map(text));
  });

  it('stay in order, with the first of those that are joined', () => {
    const drafts = [
      draft(['a'], [1]),
      draft(['x', 'y'], [2]),
      draft(['a', 'b'], [3]),
      draft(['a', 'b'], [4]),
    ];
    assert.deepEqual(joinDrafts(drafts, 2).map(text), ['a,b 1,3,4 1', 'x,y 2 0']);
  });

  it('do not open a rule of few to everybody first', () => {
    const anybody: RuleDraft = {
      ...draft([], [443]),
      peers: new Map([['any', { ipBlock: { cidr: '0.0.0.0/0' } }]]),
    };
    assert.deepEqual(joinDrafts([anybody, draft(['a'], [22]), draft(['b', 'c'], [5, 6, 7])], 2).map(text), [
      'any 443 0',
      'a,b,c 22,5,6,7 5',
    ]);
  });

  it('are never of two directions, nor of ports and Services', () => {
    const one = draft(['a'], [1]);
    const drafts: RuleDraft[] = [one, { ...one, direction: 'egress' }, { ...one, form: 'services' }];
    assert.equal(joinDrafts(drafts, 1).length, 3);
  });

  it('are one in any case where nothing is allowed that was not seen', () => {
    const services = [draft(['a'], [1]), draft(['b'], [2])].map((one) => ({
      ...one,
      form: 'services' as const,
    }));
    assert.deepEqual(joinDrafts(services, 9).map(text), ['a,b 1,2 0']);
    assert.deepEqual(joinDrafts([draft(['a'], [1]), draft(['a'], [2])], 9).map(text), ['a 1,2 0']);
  });

  it('have all peers and services of many, in one', () => {
    const many = Array.from({ length: 40 }, (_, i) => draft([`p${i % 7}`], [i]));
    const [one, ...more] = joinDrafts(many, 1);
    assert.deepEqual([one?.peers.size, one?.services.length, more], [7, 40, []]);
  });
});

describe('the rule of a draft', () => {
  it('excepts what is odd, but not what is good for a service of the rule', () => {
    const addresses = [40, 41, 42, 43, 44, 45].map((i) => `10.9.8.${i}`);
    const peers = new Map(addresses.map((one) => [one, { ipBlock: { cidr: `${one}/32` } }]));
    const avoid = ['10.9.8.41', '10.9.8.46'].map((one) => parseAddress(one) ?? assert.fail());
    const one = draft([], [2049]);
    const evidence = [evidenceOf(seenKind('10.9.8.41', 2049), 'n')];
    const services = one.services.map((service) => ({ ...service, evidence }));
    const { rule } = toAdvisedRule({ ...one, services, peers, avoid }, 1, 1);
    const excepted =
      JSON.stringify(rule.from)
        .match(/"except":\[.*?\]/g)
        ?.join() ?? '';
    assert.match(excepted, /10\.9\.8\.46/);
    assert.doesNotMatch(excepted, /10\.9\.8\.4[0-5]/);
  });
});
