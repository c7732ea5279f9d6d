import assert from 'node:assert/strict';
import type { JsonObject } from 'nftables-napi';
import {
  DESTINATION_RULES,
  otherLegacyTables,
  otherRules,
  QUEUE_RULES,
  SOURCE_RULES,
  UNTRACKED_RULES,
} from './machine-facts.ts';

const chain = (
  family: string,
  table: string,
  hook: string | null,
  prio: number,
  type = 'filter',
): JsonObject => ({
  chain: { family, table, name: 'c', ...(hook === null ? {} : { type, hook, prio }) },
});

async function found(
  chains: readonly JsonObject[],
  tables: Readonly<Record<string, string>>,
  wanted = UNTRACKED_RULES,
): Promise<string[]> {
  return otherRules(
    {
      list: async () => [...chains],
      async run(command) {
        const output = tables[command.replace('list table ', '')];
        if (output === undefined) throw Object.assign(new Error('no such table'), { code: 'ENOENT' });
        return output;
      },
    },
    [],
    wanted,
  );
}

describe('rules that leave packets untracked', () => {
  it('are counted in each table that has a chain before connection tracking', async () => {
    const chains = [
      chain('ip', 'raw', 'prerouting', -300),
      chain('ip', 'raw', null, 0),
      chain('inet', 'late', 'prerouting', -150),
      chain('inet', 'nodewall', 'prerouting', -300),
      chain('inet', 'other', 'output', -300),
      chain('inet', 'gone', 'output', -300),
    ];
    const texts = {
      'ip raw':
        'meta mark & 0x00000f00 == 0x00000d00 counter packets 0 bytes 0 notrack\n xt target "CT"\n accept',
      'inet late': 'notrack',
      'inet nodewall': 'notrack',
      'inet other': 'ip saddr 10.0.0.1 accept comment "no notrack here"',
    };
    assert.deepEqual(await found(chains, texts), ['ip raw (2)']);
  });
});

describe('rules that queue packets', () => {
  it('are counted where they have no bypass', async () => {
    const text = `table inet ips {
 chain queue {
  tcp dport 1 counter packets 0 bytes 0 queue to 3
  tcp dport 2 queue flags fanout to 1-3
  tcp dport 3 queue num 3
  tcp dport 4 queue flags bypass to 3
  tcp dport 5 queue num 3 bypass
  jump queue comment "queue to 3"
 }
}`;
    const chains = [chain('inet', 'ips', 'input', 0)];
    assert.deepEqual(await found(chains, { 'inet ips': text }, QUEUE_RULES), ['inet ips (3)']);
  });
});

describe('rules of others that translate addresses', () => {
  const chains = [
    chain('ip', 'nat', 'prerouting', -100, 'nat'),
    chain('ip', 'nat', 'postrouting', 100, 'nat'),
    chain('inet', 'filter', 'prerouting', -100),
    chain('ip', 'kube-proxy', 'prerouting', -100, 'nat'),
    chain('ip', 'calico', 'postrouting', 100, 'nat'),
    chain('inet', 'nodewall', 'postrouting', 99, 'nat'),
  ];
  const texts = {
    'ip nat': `table ip nat {
 chain DOCKER {
  iifname != "docker0" tcp dport 8080 counter packets 1 bytes 60 dnat to 172.17.0.2:80
  iifname "docker0" counter return comment "no dnat here"
 }
 chain KUBE-SEP-1 {
  meta l4proto tcp counter xt target "DNAT"
 }
 chain PREROUTING {
  type nat hook prerouting priority dstnat; policy accept;
  tcp dport 80 counter xt target "REDIRECT"
  tcp dport 81 redirect to :8081
 }
 chain POSTROUTING {
  ip saddr 10.244.0.0/16 ip daddr != 10.244.0.0/16 counter masquerade
  ip saddr 172.17.0.0/16 oifname != "docker0" counter xt target "MASQUERADE"
 }
}`,
    'inet filter': 'tcp dport 9 dnat to 10.0.0.1',
    'ip kube-proxy': ' chain service-ABC {\n  ip daddr 10.96.0.1 dnat ip to 10.0.0.1:6443\n }',
    // As kube-proxy's but for its letters.
    'ip calico': ' chain nat-POSTROUTING {\n  ip saddr @pools counter masquerade fully-random\n }',
    'inet nodewall': ' masquerade',
  };

  it('are counted, of destinations and of sources, without those of kube-proxy', async () => {
    assert.deepEqual(await found(chains, texts, DESTINATION_RULES), ['ip nat (3)']);
    assert.deepEqual(await found(chains, texts, SOURCE_RULES), ['ip nat (2)', 'ip calico (1)']);
  });
});

describe('tables of iptables-legacy', () => {
  const filter = (...lines: readonly string[]): string =>
    ['*filter', ':INPUT ACCEPT [0:0]', ...lines, 'COMMIT', ''].join('\n');
  const OWN = [':NODEWALL-INPUT - [0:0]', '-A INPUT -j NODEWALL-INPUT', '-A NODEWALL-INPUT -i lo -j ACCEPT'];

  for (const [what, text, isOfOthers] of [
    ['without rules', filter(), false],
    ["with nodewall's", filter(...OWN), false],
    ["with a rule behind nodewall's", filter(...OWN, '-A INPUT -s 192.0.2.1/32 -j DROP'), true],
    ['with a chain that drops', filter(':OUTPUT DROP [0:0]', ...OWN), true],
    ['that cannot be read', '', true],
  ] as const)
    it(`${what}: ${isOfOthers ? 'of others' : 'none of others'}`, async () => {
      const asked: string[] = [];
      const saved = async (command: string, table: string) => {
        asked.push(`${command} ${table}`);
        return text;
      };
      assert.deepEqual(
        await otherLegacyTables(['ip6tables filter'], saved),
        isOfOthers ? ['ip6tables filter'] : [],
      );
      assert.deepEqual(asked, ['ip6tables-legacy-save filter']);
    });
});
