/**
 * The largest bodies that anybody who reaches the webhook's port can send, each a list, map or text
 * that some step reads. One that needs quadratic time would take minutes, on the thread that also
 * renews the Lease and serves every agent.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { NO_OBJECTS } from '../../apis/objects.ts';
import { MOST } from '../../apis/schema/crd-checks.ts';
import { validateObject } from '../../apis/validate/object.ts';
import type { AdmissionWorld } from '../../controller/webhook/admission.ts';
import { ADMISSION_LIMITS, AdmissionProcess } from '../../controller/webhook/admission-process.ts';
import { webhookHandler } from '../../controller/webhook/server.ts';
import { BODIES, NESTED, reviewOf } from './bodies.ts';

/** Milliseconds. The slowest takes less than a second on a machine with nothing else to do. */
const LIMIT = 30_000;

const items = <T>(count: number, item: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => item(index));
/** The largest policies that are allowed, of which every pair of rules could be compared. */
function largest(name: string, ofPort: (index: number) => object): object {
  const rules = items(MOST.rules, (index) => ({ action: 'Drop', ...ofPort(index) }));
  const spec = { priority: 1, appliedTo: [{ nodeSelector: {} }], ingress: rules, egress: rules };
  return { apiVersion: 'nodewall.io/v1alpha1', kind: 'ClusterNetworkPolicy', metadata: { name }, spec };
}
const onPort = (index: number): object => ({ ports: [{ protocol: 'TCP', port: index + 1 }] });

describe('the webhook, sent the largest bodies', function () {
  this.timeout(LIMIT);
  let server: Server;
  const admission = new AdmissionProcess({ ...ADMISSION_LIMITS, time: LIMIT });
  const failures: Error[] = [];
  before(async () => {
    const policies = items(100, (index) => validateObject(largest(`other-${index}`, onPort)).object);
    const objects = { ...NO_OBJECTS, policies } as NonNullable<AdmissionWorld['objects']>;
    const world = { objects, failsafe: DEFAULT_CONFIG.failsafe, interfaceGroups: [] };
    const handler = webhookHandler({
      admit: (request) => admission.admit(request),
      world: () => world,
      changed: async () => {},
      latest: async () => null,
      onFailure: (error) => failures.push(error),
    });
    server = createServer(handler).listen(0, '127.0.0.1');
    await once(server, 'listening');
  });
  after(() => {
    server?.closeAllConnections();
    server?.close();
    admission.close();
    assert.deepEqual(failures, []);
  });

  async function post(step: string, sent: string, status = 200): Promise<string> {
    const { port } = server.address() as AddressInfo;
    const response = await fetch(`http://127.0.0.1:${port}/${step}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: reviewOf(sent),
    });
    assert.equal(response.status, status);
    return await response.text();
  }

  for (const [what, [body, answer]] of Object.entries(BODIES)) {
    it(`answers a body of ${what}`, async () => {
      const text = await post('mutate', body);
      assert.match(text, answer);
      assert.ok(text.length < 100_000, `an answer of ${text.length} characters`);
    });
  }

  it('refuses lists and maps nested as deeply as fits', async () => {
    for (const body of NESTED) assert.match(await post('mutate', body, 400), /not an AdmissionReview/);
  });

  for (const [what, ofPort] of [
    ['equal rules', () => ({})],
    ['rules for different ports', onPort],
  ] as const) {
    it(`names and compares the largest policy of ${what}, beside 100 as large`, async () => {
      assert.match(await post('mutate', JSON.stringify(largest('p', ofPort))), /"allowed":true/);
      assert.match(await post('validate', JSON.stringify(largest('p', ofPort))), /"allowed":true/);
    });
  }
});
