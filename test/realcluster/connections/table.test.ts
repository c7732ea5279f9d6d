import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { CLIENTS, exactOutcome, givenOutcome, type Setting, targetsFor } from './table.ts';

const SETTINGS: readonly Setting[] = [
  { seenAs: 'pod', hasProxy: true, isAllowFinal: false },
  { seenAs: 'node', hasProxy: true, isAllowFinal: true },
  { seenAs: 'pod', hasProxy: false, isAllowFinal: false },
];

describe('the table of connections', () => {
  it('has connections that each client may and may not make', () => {
    for (const setting of SETTINGS)
      for (const client of CLIENTS) {
        const outcomes = targetsFor(client, setting).map((target) => exactOutcome(client, target, setting));
        const isLoopbackAlone = client === 'worker-2' && !setting.hasProxy;
        assert.equal(outcomes.includes('open'), true, client);
        assert.equal(
          outcomes.some((one) => one !== 'open'),
          !isLoopbackAlone,
          client,
        );
      }
  });

  it('opens nothing by a rule that the network does not give', () => {
    for (const setting of SETTINGS)
      for (const client of CLIENTS)
        for (const target of targetsFor(client, setting)) {
          const given = givenOutcome(client, target, setting);
          if (given !== 'open') assert.notEqual(exactOutcome(client, target, setting), 'open');
        }
  });

  it('has the ports of exact.yaml, where NAT hands to a pod', async () => {
    const text = await readFile(join(import.meta.dirname, 'exact.yaml'), 'utf8');
    const policies = parseAllDocuments(text).map((one) => one.toJS());
    const policy = policies.find(({ spec }) => spec.traffic === 'NodePort');
    const wanted = targetsFor('worker-1', { seenAs: 'pod', hasProxy: true, isAllowFinal: false }).filter(
      ({ kind }) => !['Host', 'pod'].includes(kind),
    );
    for (const variant of ['a', 'b']) {
      const ports = new Set(wanted.filter((one) => one.variant === variant).map(({ port }) => port));
      const rule = policy.spec.ingress.find(({ name }: { name: string }) => name === variant);
      for (const protocol of ['TCP', 'UDP']) {
        const own = rule.ports.filter((one: { protocol: string }) => one.protocol === protocol);
        assert.deepEqual(new Set(own.map(({ port }: { port: number }) => port)), ports);
      }
    }
  });

  it('tells pods with their own address from masqueraded ones', () => {
    const [own, masqueraded] = SETTINGS.map((setting) =>
      targetsFor('pod on worker-1', setting)
        .filter(({ kind, at }) => kind === 'NodePort' && at === 'worker-2')
        .map((target) => exactOutcome('pod on worker-1', target, setting)),
    );
    assert.deepEqual(own, ['open', 'refused']);
    assert.deepEqual(masqueraded, ['refused', 'open']);
  });
});
