import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fc from 'fast-check';
import { Netlink, Nftables } from 'nftables-napi';
import { emptyNodeState } from '../../../apis/compiled.ts';
import { DEFAULT_CONFIG } from '../../../apis/config.ts';
import { isConvertedByNft } from '../../../test/fake/byte-order.ts';
import { anyRule, EACH_MATCH, EACH_STATEMENT, withEachSet } from '../../../test/fake/each-rule.ts';
import { egressScenario } from '../../../test/generate/egress/egress-scenario.ts';
import { scenario } from '../../../test/generate/scenario.ts';
import { withPorts } from '../../../test/kernel/ruleset-text.ts';
import { toNodeEgress } from '../../../test/properties/egress-agree.ts';
import { renderBoth, toConfig, toState } from '../../../test/properties/pipeline.ts';
import { checkAsync } from '../../../test/properties/runs.ts';
import { inNamespace } from '../../nftables-napi/test/netns.ts';
import { rulesetText, ruleText } from '../../render/nft-text.ts';
import { render } from '../../render/render.ts';
import {
  KEY_LENGTH,
  type L4Protocol,
  type Match,
  type NamedSet,
  type Ruleset,
  type Statement,
  TABLE,
} from '../../render/ruleset.ts';
import { mapKeyLength } from '../../render/verdict-map.ts';
import type { Command } from '../plan/command.ts';
import { encode } from './encode.ts';

/** A ruleset in one batch: elements of maps come after the chains they lead to. */
function toCommands({ sets, maps, chains }: Ruleset): Command[] {
  return [
    { kind: 'addTable' },
    ...[...sets.values()].flatMap((each): Command[] => [
      { kind: 'addSet', set: each },
      { kind: 'addElements', set: each.name, ...setElements(each) },
    ]),
    ...[...maps.values()].map((map): Command => ({ kind: 'addMap', map })),
    ...[...chains.values()].map((each): Command => ({ kind: 'addChain', chain: each })),
    ...[...maps.values()].map(
      (map): Command => ({ kind: 'addElements', set: map.name, keyLength: mapKeyLength(map), ...map }),
    ),
    ...[...chains.values()].flatMap(({ name, rules }) =>
      rules.map((each): Command => ({ kind: 'addRule', chain: name, rule: each, source: null })),
    ),
  ];
}

function setElements({ key, family, interval, members }: NamedSet) {
  const keyLength = KEY_LENGTH[key][family];
  if (!interval) return { keyLength, interval, keys: members.singles };
  const digits = 2 * keyLength;
  const singles =
    Buffer.from(members.singles)
      .toString('hex')
      .match(new RegExp(`.{${digits}}`, 'g')) ?? [];
  const prefixes = members.prefixes.map(({ value, length }) => {
    const last = value | ((1n << BigInt(4 * digits - length)) - 1n);
    return [value, last].map((end) => end.toString(16).padStart(digits, '0')).join('');
  });
  const keys = Buffer.from([...singles.map((single) => single + single), ...prefixes].join(''), 'hex');
  return { keyLength, interval, keys };
}

/** The packets that a rule can be for. */
interface Context {
  readonly family: 4 | 6;
  readonly protocol: L4Protocol | 'several';
}

const CONTEXTS: readonly Context[] = ([4, 6] as const).flatMap((family) =>
  (
    [
      'tcp',
      'udp',
      'sctp',
      'several',
      family === 4 ? 'icmp' : 'icmpv6',
      ...(family === 4 ? ['igmp'] : []),
    ] as const
  ).map((protocol) => ({ family, protocol: protocol as Context['protocol'] })),
);

function fits(needs: Partial<Context>, { family, protocol }: Context): boolean {
  return (needs.family ?? family) === family && (needs.protocol ?? protocol) === protocol;
}

function matchNeeds(match: Match): Partial<Context> {
  switch (match.match) {
    case 'nfproto':
    case 'address':
    case 'serviceTuple':
    case 'notIn':
    case 'notInSet':
      return { family: match.family };
    case 'port':
    case 'originalPort':
      return { protocol: match.protocol };
    case 'dnsAnswer':
      return { protocol: 'udp' };
    case 'tcpSyn':
    case 'tcpNotFirst':
      return { protocol: 'tcp' };
    case 'l4proto': {
      const [only] = match.protocols;
      return { protocol: match.protocols.length === 1 && only ? only : 'several' };
    }
    case 'icmp':
      return { protocol: match.protocol, family: match.protocol === 'icmp' ? 4 : 6 };
    case 'igmp':
      return { protocol: 'igmp', family: 4 };
    default:
      return {};
  }
}

/**
 * No field is compared twice: libnftables then merges other fields than we do, with the same
 * effect.
 */
function comparedField(match: Match): string {
  if (match.match === 'dnsAnswer') return 'port sport';
  return 'field' in match ? `${match.match} ${match.field}` : match.match;
}

function statementNeeds(statement: Statement): Partial<Context> {
  switch (statement.kind) {
    case 'reject':
      return statement.with === 'tcp reset' ? { protocol: 'tcp' } : {};
    case 'portMap':
      return { protocol: statement.protocol };
    case 'addressMap':
    case 'snat':
    case 'addressMacMap':
    case 'addressInnerMacMap':
    case 'hashMap':
      return { family: statement.family };
    case 'maxSegment':
      return { protocol: 'tcp' };
    default:
      return {};
  }
}

/**
 * The kernel's data about each set, unparsed: NFT_MSG_GETSET asked for all sets of the namespace,
 * the attributes flags, types, lengths, description and userdata of each answer in hexadecimal
 * (linux/netfilter/nf_tables.h). Neither a snapshot nor `nft list` shows all of that.
 */
const RAW_SETS = `
import json, socket, struct
netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
netlink.send(struct.pack('=IHHIIBBH', 20, 10 << 8 | 10, 0x301, 1, 0, 1, 0, 0))
sets, done = [], False
while not done:
    data = netlink.recv(1 << 20)
    while data:
        length, kind = struct.unpack('=IH', data[:6])
        done = done or kind == 3
        body, kept = data[20:length], {}
        while kind == 10 << 8 | 9 and len(body) >= 4:
            size, attribute = struct.unpack('=HH', body[:4])
            if attribute & 0x3fff in (3, 4, 5, 6, 7, 9, 13): kept[attribute & 0x3fff] = body[4:size].hex()
            body = body[(size + 3) & ~3:]
        if kept: sets.append(kept)
        data = data[(length + 3) & ~3:]
print(json.dumps(sets))
`;

function rawSets(): Record<string, string>[] {
  const { stdout, stderr, status } = spawnSync('python3', ['-c', RAW_SETS], {
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
  });
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout);
}

/** The origin `ct original proto-dst` of a set's key, which the agent leaves out. */
const ORIGINAL_PORT_ORIGIN = '031400040c000000010c00040c000000010400000000';

function withoutOrigin({ 13: userdata = '', ...rest }: Record<string, string>): Record<string, string> {
  return { ...rest, 13: userdata.replace(ORIGINAL_PORT_ORIGIN, '') };
}

inNamespace(import.meta.filename, () => {
  describe('a ruleset by netlink and its text by libnftables', function () {
    this.timeout(120_000);
    let netlink: Netlink;
    let nftables: Nftables;
    before(() => {
      netlink = new Netlink();
      nftables = new Nftables();
    });
    after(() => Promise.all([netlink.close(), nftables.close()]));
    beforeEach(() => nftables.run('flush ruleset'));

    /** The state in the kernel without handles and without the numbers of anonymous sets. */
    async function current() {
      const snapshot = await netlink.snapshot(TABLE.family, TABLE.name);
      assert.ok(snapshot);
      const named = snapshot.sets.filter(({ isAnonymous }) => !isAnonymous);
      const anonymous = snapshot.sets.filter(({ isAnonymous }) => isAnonymous);
      const elements = await Promise.all(
        named.map(({ name }) => netlink.elements({ family: TABLE.family, table: TABLE.name, set: name })),
      );
      return {
        chains: snapshot.chains.map(({ name, base, rules }) => ({
          name,
          base,
          rules: rules.map(({ comment, digest, packets }) => ({ comment, digest, packets })),
        })),
        sets: named.map(({ name, flags, keyLength }, i) => ({
          name,
          flags,
          keyLength,
          elements: elements[i],
        })),
        anonymous: anonymous.map(({ flags, keyLength, elementCount }) => ({
          flags,
          keyLength,
          elementCount,
        })),
        text: withPorts(await nftables.run(`list table ${TABLE.family} ${TABLE.name}`)),
      };
    }

    async function loaded(load: () => Promise<unknown>) {
      await nftables.run('flush ruleset');
      await load();
      return current();
    }

    async function assertSame(table: Ruleset): Promise<void> {
      const byText = await loaded(() => nftables.run(rulesetText(table)));
      const byNetlink = await loaded(() => netlink.batch(encode(toCommands(table)).operations));
      // Compares the most telling part first: each rule that differs, then everything.
      for (const { name, rules } of table.chains.values())
        for (const [i, each] of rules.entries())
          if (isConvertedByNft(each))
            for (const { chains } of [byText, byNetlink]) {
              const there = chains.find((chain) => chain.name === name)?.rules[i];
              if (there !== undefined) there.digest = '';
            }
      const digests = ({ chains }: typeof byText) =>
        new Map(chains.map(({ name, rules }) => [name, rules.map(({ digest }) => digest)]));
      const [expected, found] = [digests(byText), digests(byNetlink)];
      const different = [...table.chains.values()].flatMap(({ name, rules }) =>
        rules.filter((_, i) => found.get(name)?.[i] !== expected.get(name)?.[i]).map(ruleText),
      );
      assert.deepEqual(different, []);
      assert.equal(byNetlink.text, byText.text);
      assert.deepEqual(byNetlink, byText);
    }

    /** Also compares the sets byte for byte: for a few rulesets only, because it is slow. */
    async function assertSameBytes(table: Ruleset): Promise<void> {
      await assertSame(table);
      const byNetlink = rawSets();
      await loaded(() => nftables.run(rulesetText(table)));
      assert.deepEqual(byNetlink, rawSets().map(withoutOrigin));
      assert.ok(byNetlink.length >= table.sets.size + table.maps.size);
    }

    it('are the same for sets, maps and chains', () => assertSameBytes(withEachSet([])));

    it('are the same for each kind of match', async () => {
      const tried = new Set(EACH_MATCH.map(({ match }) => match));
      assert.equal(tried.size, 34, 'a new kind of match: add it to EACH_MATCH, and count it here');
      await assertSameBytes(withEachSet(EACH_MATCH.map((match) => anyRule({ kind: 'return' }, match))));
    });

    it('are the same for each kind of statement', async () => {
      const tried = new Set(EACH_STATEMENT.map(({ kind }) => kind));
      assert.equal(tried.size, 19, 'a new kind of statement: add it to EACH_STATEMENT, and count it here');
      await assertSameBytes(withEachSet(EACH_STATEMENT.map((statement) => anyRule(statement))));
    });

    it('are the same for any compatible matches in a rule', async function () {
      const rules = fc.constantFrom(...CONTEXTS).chain((context) => {
        const matches = EACH_MATCH.filter((match) => fits(matchNeeds(match), context));
        const statements = EACH_STATEMENT.filter((statement) => fits(statementNeeds(statement), context));
        return fc.record({
          // libnftables merges two port matches with others between them, but not all of those with
          // a limit between them: render puts a limit last.
          matches: fc
            .uniqueArray(fc.constantFrom(...matches), { maxLength: 5, selector: comparedField })
            .map((drawn) =>
              drawn.toSorted((a, b) => Number(a.match === 'limit') - Number(b.match === 'limit')),
            ),
          counter: fc.boolean(),
          statement: fc.constantFrom(...statements),
          comment: fc.constant(null),
        });
      });
      await checkAsync(this, 25, fc.array(rules, { minLength: 200, maxLength: 200, size: 'max' }), (drawn) =>
        assertSame(withEachSet(drawn)),
      );
    });

    it('reject a rule that names two protocols or families', async () => {
      const [v4, v6] = ([4, 6] as const).map(
        (family): Match => ({
          match: 'address',
          family,
          field: 'saddr',
          in: { cidr: { family, value: 0n, length: 0 } },
        }),
      );
      const [tcp, udp] = (['tcp', 'udp'] as const).map(
        (protocol): Match => ({ match: 'port', protocol, field: 'dport', ranges: [[1, 1]] }),
      );
      assert.ok(v4 && v6 && tcp && udp);
      await netlink.batch(encode(toCommands(withEachSet([]))).operations);
      for (const matches of [
        [v4, v6],
        [tcp, udp],
      ]) {
        const wrong = anyRule({ kind: 'accept' }, ...matches);
        assert.throws(
          () => encode([{ kind: 'addRule', chain: 'c', rule: wrong, source: null }]),
          /cannot also match/,
        );
        const text = `add rule ${TABLE.family} ${TABLE.name} c ${ruleText(wrong)}`;
        await assert.rejects(nftables.run(text), /conflicting protocols/);
      }
    });

    it('are the same for random policies', async function () {
      const drawn = fc.constantFrom(1, 4, 10, 25).chain((size) => scenario({ size, flows: 0 }));
      await checkAsync(this, 25, drawn, async ({ objects, node, config }) => {
        const { indexed, linear } = renderBoth(toState(objects, node), toConfig(config));
        await assertSame(indexed);
        await assertSame(linear);
      });
    });

    it('are the same for random egress gateways', async function () {
      await checkAsync(this, 8, egressScenario(6, 0), async (drawn) => {
        for (const [node, egress] of toNodeEgress(drawn)) {
          await assertSame(render({ ...emptyNodeState(node), egress }, DEFAULT_CONFIG));
        }
      });
    });

    it('names the command that was refused', async () => {
      await netlink.batch(encode(toCommands(withEachSet([]))).operations);
      const ports = EACH_MATCH.find((match) => match.match === 'port' && match.ranges.length === 2);
      assert.ok(ports);
      const add = (statement: Statement): Command => ({
        kind: 'addRule',
        chain: 'c',
        rule: anyRule(statement, ports),
        source: null,
      });
      const { operations, commandOf } = encode([
        { kind: 'flushChain', name: 'c' },
        add({ kind: 'accept' }),
        add({ kind: 'jump', chain: 'nowhere' }),
      ]);
      assert.equal(operations.length, 7); // each rule has a set, which is two operations
      await assert.rejects(netlink.batch(operations), (error: { code?: string; operation?: number }) => {
        assert.equal(error.code, 'ENOENT');
        assert.equal(commandOf(error.operation ?? 0), 2);
        return true;
      });
      assert.throws(() => commandOf(7), RangeError);
    });

    it('changes existing objects', async () => {
      const load = (...commands: readonly Command[]) => netlink.batch(encode(commands).operations);
      await load(...toCommands(withEachSet([anyRule({ kind: 'accept' })])));
      const handle = (await netlink.snapshot(TABLE.family, TABLE.name))?.chains.find(
        ({ name }) => name === 'c',
      )?.handle;
      await load({ kind: 'renameChain', name: 'c', handle: handle ?? 0, to: 'old' });
      const keys = Buffer.from([10, 0, 0, 1, 10, 0, 0, 9]);
      await load(
        { kind: 'flushElements', set: 'interval4', keyLength: 4, interval: true, keys: new Uint8Array() },
        { kind: 'addElements', set: 'interval4', keyLength: 4, interval: true, keys },
        { kind: 'deleteElements', set: 'hash4', keyLength: 4, interval: false, keys: keys.subarray(0, 4) },
        { kind: 'deleteSet', name: 'service6' },
        { kind: 'deleteSet', name: 'empty' },
        { kind: 'flushChain', name: 'old' },
        { kind: 'deleteChain', name: 'old' },
      );
      const { text, sets } = await current();
      assert.doesNotMatch(text, /service6|empty|chain (c|old) /);
      const elements = new Map(sets.map(({ name, elements: each }) => [name, each]));
      assert.deepEqual(Buffer.from(elements.get('interval4')?.ranges ?? []), keys);
      assert.equal(Buffer.from(elements.get('hash4')?.keys ?? []).toString('hex'), '0a000003');
      await load({ kind: 'deleteTable' });
      assert.equal(await netlink.snapshot(TABLE.family, TABLE.name), null);
    });
  });
});
