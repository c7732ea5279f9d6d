/**
 * Changes whose evaluation takes as long as possible, repeated by one user with the right to make
 * them. Where there are Guardrails, a change that is not evaluated in time is refused: those of
 * others must not be.
 */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { IMPACT_LIMITS, ImpactProcess } from '../../controller/impact/impact-process.ts';
import { AdmissionProcess } from '../../controller/webhook/admission-process.ts';
import { webhookHandler } from '../../controller/webhook/server.ts';
import { cidr, node, policy, tcp } from '../kernel/manifests.ts';
import { addressPlan } from '../netns/topology.ts';
import { toClusterObjects } from '../properties/pipeline.ts';
import { onStairs, plainStep, reviewOf } from './bodies.ts';

const ROUNDS = process.env.NODEWALL_RUNS === undefined ? 2 : 5;
const NODE = node(addressPlan());
const guardrail = (name: string, item: object) => ({
  apiVersion: 'nodewall.io/v1alpha1',
  kind: 'Guardrail',
  metadata: { name },
  spec: { nodeSelector: {}, mustAllow: [{ direction: 'ingress', ...item }] },
});
const GUARDRAILS = [
  guardrail('ssh', { ports: [tcp(65_001)] }),
  // The evaluation has to look at all combinations of ports.
  guardrail('partner', { from: [cidr('198.51.100.0/24')] }),
];
/** 1.3 MB, which etcd stores. */
const heavy = policy('heavy', {
  ingress: Array.from({ length: 150 }, (_, i) => ({ action: i % 2 ? 'Allow' : 'Pass', ...onStairs(i) })),
});
const drop = (name: string, port: number) =>
  policy(name, { ingress: [{ action: 'Drop', from: [cidr('203.0.113.0/24')], ports: [tcp(port)] }] });

describe('changes that take long to evaluate', function () {
  this.timeout(240_000);
  const objects = toClusterObjects([NODE, ...GUARDRAILS]);
  const admission = new AdmissionProcess();
  // Theirs may wait for a process that starts anew, and for the processors, which takes a machine
  // with much else to do some seconds. The heavy one takes minutes on any.
  const limits = { ...IMPACT_LIMITS, change: 60_000, evaluation: 4_000 };
  const impact = new ImpactProcess(DEFAULT_CONFIG, () => objects, limits);
  const failures: Error[] = [];
  let server: Server;

  before(async () => {
    const world = {
      objects,
      failsafe: DEFAULT_CONFIG.failsafe,
      believesAnyServer: false,
      interfaceGroups: [],
    };
    const handler = webhookHandler({
      stepOf: plainStep,
      admit: (request) => admission.admit(request),
      world: () => world,
      changed: async () => {},
      latest: async () => null,
      impact: (change, asker) => impact.change(change, asker),
      onFailure: (error) => failures.push(error),
    });
    server = createServer(handler).listen(0, '127.0.0.1');
    await once(server, 'listening');
    await impact.violations();
  });
  after(() => {
    server?.closeAllConnections();
    server?.close();
    admission.close();
    impact.close();
    assert.deepEqual(failures, []);
  });

  async function apply(username: string, object: object, signal?: AbortSignal): Promise<string> {
    const { port } = server.address() as AddressInfo;
    const response = await fetch(`http://127.0.0.1:${port}/validate`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: reviewOf(JSON.stringify(object), username),
      signal: signal ?? null,
    });
    return await response.text();
  }

  it('of one user: those of others are judged, each time', async () => {
    const over = new AbortController();
    const answers: string[] = [];
    let longest = 0;
    const repeat = async (): Promise<void> => {
      while (!over.signal.aborted) {
        const began = performance.now();
        answers.push(await apply('eve', heavy, over.signal));
        longest = Math.max(longest, performance.now() - began);
      }
    };
    const attack = Array.from({ length: 8 }, repeat);
    try {
      for (let round = 0; round < ROUNDS; round++) {
        const [ann, bob] = await Promise.all([apply('ann', drop('p', 80)), apply('bob', drop('p', 65_001))]);
        assert.match(ann, /"allowed":true/);
        assert.match(bob, /would break Guardrail\/ssh on node-0/);
      }
    } finally {
      // Those that wait would each be evaluated for as long as they may.
      over.abort();
      const ends = await Promise.allSettled(attack);
      for (const end of ends) if (end.status === 'rejected') assert.equal(end.reason, over.signal.reason);
    }
    assert.ok(answers.length > ROUNDS);
    assert.ok(longest >= limits.evaluation, `none took more than ${longest} ms`);
    // A fast machine checks the Guardrails within.
    for (const answer of answers)
      assert.match(answer, /(the Guardrails|the object) cannot be checked in time|too many to compute here/);
  });
});
