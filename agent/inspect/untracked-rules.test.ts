import assert from 'node:assert/strict';
import type { JsonObject } from 'nftables-napi';
import { untrackedRules } from './untracked-rules.ts';

const chain = (family: string, table: string, hook: string | null, prio: number): JsonObject => ({
  chain: { family, table, name: 'c', ...(hook === null ? {} : { hook, prio }) },
});

async function found(
  chains: readonly JsonObject[],
  tables: Readonly<Record<string, string>>,
): Promise<string[]> {
  return untrackedRules(
    {
      list: async () => [...chains],
      async run(command) {
        const output = tables[command.replace('list table ', '')];
        if (output === undefined) throw new Error('no such table');
        return { output, generation: { before: 1, after: 1 } };
      },
    },
    [],
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
