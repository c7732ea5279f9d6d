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
import { DEFAULT_EGRESS_CONFIG } from '../../apis/egress/config.ts';
import { NO_OBJECTS } from '../../apis/objects.ts';
import { validateObject } from '../../apis/validate/object.ts';
import type { AdmissionWorld } from '../../controller/webhook/admission.ts';
import { ADMISSION_LIMITS, AdmissionProcess } from '../../controller/webhook/admission-process.ts';
import { webhookHandler } from '../../controller/webhook/server.ts';
import { BODIES, largest, NESTED, onPort, plainStep, reviewOf } from './bodies.ts';

/** Milliseconds. The slowest takes less than a second on a machine with nothing else to do. */
const LIMIT = 30_000;

describe('the webhook, sent the largest bodies', function () {
  this.timeout(LIMIT);
  let server: Server;
  const admission = new AdmissionProcess({ ...ADMISSION_LIMITS, time: LIMIT });
  const failures: Error[] = [];
  before(async () => {
    const policies = Array.from(
      { length: 100 },
      (_, index) => validateObject(largest(`other-${index}`, onPort)).object,
    );
    const objects = { ...NO_OBJECTS, policies } as NonNullable<AdmissionWorld['objects']>;
    const world = {
      objects,
      failsafe: DEFAULT_CONFIG.failsafe,
      believesAnyServer: false,
      interfaceGroups: [],
      egress: DEFAULT_EGRESS_CONFIG,
    };
    const handler = webhookHandler({
      stepOf: plainStep,
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
