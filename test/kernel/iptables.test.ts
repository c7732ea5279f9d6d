/**
 * The tests' own look at iptables and ipset: it sees what is ours, all of it, and nobody else's.
 */
import assert from 'node:assert/strict';
import { createNamespace, type Namespace } from '../netns/namespace.ts';
import { dataplaneSuite, IPTABLES_LEGACY, IPTABLES_NFT, inForce, lose } from './dataplane.ts';
import { commandOf } from './iptables.ts';
import { FAMILIES } from './passed-by.ts';

const RULES = `*filter
:OTHERS - [0:0]
:NODEWALL-INPUT - [0:0]
:NODEWALL-A - [0:0]
-A INPUT -j NODEWALL-INPUT
-A INPUT -j OTHERS
-A NODEWALL-INPUT -p tcp -m tcp --dport 20001 -g NODEWALL-A
-A NODEWALL-INPUT -m set --match-set nodewall-SUFFIX src -j DROP
-A NODEWALL-A -j DROP
COMMIT
*nat
:NODEWALL-POSTROUTING - [0:0]
-A POSTROUTING -j NODEWALL-POSTROUTING
-A NODEWALL-POSTROUTING -j RETURN
COMMIT
`;
const SETS = `create nodewall-4 hash:net family inet
add nodewall-4 192.0.2.1
add nodewall-4 10.0.0.0/8
create nodewall-6 hash:ip family inet6
create others hash:ip family inet
`;

for (const dataplane of [IPTABLES_NFT, IPTABLES_LEGACY]) {
  dataplaneSuite('the listing of iptables', dataplane, () => {
    const variant = dataplane.iptables ?? 'nft';
    let namespace: Namespace;
    beforeEach(async () => {
      namespace = await createNamespace('node');
      await namespace.run(['ipset', 'restore'], { stdin: SETS });
      for (const family of FAMILIES) {
        const stdin = RULES.replaceAll('SUFFIX', String(family));
        await namespace.run([commandOf(variant, family, '-restore')], { stdin });
      }
    });
    afterEach(() => namespace?.close());

    const list = async () => (await inForce(namespace, dataplane)).text;

    it('has jumps with their places, chains, and sets', async () => {
      const family = (n: 4 | 6) => [
        `IPv${n}`,
        'filter INPUT, rule 1: -j NODEWALL-INPUT',
        'nat POSTROUTING, rule 1: -j NODEWALL-POSTROUTING',
        'filter NODEWALL-A',
        '  -j DROP',
        'filter NODEWALL-INPUT',
        '  -p tcp -m tcp --dport 20001 -g NODEWALL-A',
        `  -m set --match-set nodewall-${n} src -j DROP`,
        'nat NODEWALL-POSTROUTING',
        '  -j RETURN',
      ];
      const sets = [
        'nodewall-4 hash:net family inet',
        '  10.0.0.0/8',
        '  192.0.2.1',
        'nodewall-6 hash:ip family inet6',
      ];
      assert.equal(await list(), [...family(4), ...family(6), ...sets].join('\n'));
    });

    it('merges equal rules of both families', async () => {
      const says = async (word: string) =>
        (await inForce(namespace, dataplane)).says(new RegExp(`\\b${word}\\b`));
      assert.deepEqual(await Promise.all(['20001', '192.0.2.1', 'others', 'inet'].map(says)), [
        true,
        true,
        false,
        false,
      ]);
      await namespace.run([commandOf(variant, 6), '-F', 'NODEWALL-INPUT']);
      assert.equal(await says('20001'), false);
    });

    for (const argv of [
      [commandOf(variant, 4), '-D', 'NODEWALL-A', '1'],
      [commandOf(variant, 6), '-I', 'NODEWALL-A', '-j', 'ACCEPT'],
      [commandOf(variant, 6), '-I', 'INPUT', '-j', 'ACCEPT'],
      [commandOf(variant, 4), '-t', 'nat', '-F', 'POSTROUTING'],
      [commandOf(variant, 4), '-N', 'NODEWALL-B'],
      ['ipset', 'add', 'nodewall-6', '2001:db8::1'],
      ['ipset', 'create', 'nodewall-5', 'hash:ip'],
    ]) {
      it(`sees ${argv.join(' ')}`, async () => {
        const before = await list();
        await namespace.run(argv);
        assert.notEqual(await list(), before);
      });
    }

    for (const argv of [
      [commandOf(variant, 4), '-A', 'OTHERS', '-j', 'ACCEPT'],
      ['ipset', 'add', 'others', '192.0.2.1'],
    ]) {
      it(`overlooks ${argv.join(' ')}`, async () => {
        const before = await list();
        await namespace.run(argv);
        assert.equal(await list(), before);
      });
    }

    it("loses exactly nodewall's chains", async () => {
      await lose(namespace, dataplane);
      assert.equal(await list(), '');
      const { stdout } = await namespace.run([commandOf(variant, 6, '-save')]);
      assert.match(stdout, /^-A INPUT -j OTHERS$/m);
      assert.equal((await namespace.run(['ipset', 'list', '-n'])).stdout, 'others\n');
    });
  });
}
