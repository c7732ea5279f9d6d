import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { NO_OBJECTS } from '../../apis/objects.ts';
import { NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { plainStep } from '../../test/abuse/bodies.ts';
import { JSON_TYPE, ServerBed } from '../../test/fake/server-bed.ts';
import { admitBody } from './admit-body.ts';
import { sharedWebhook, type WebhookOptions } from './server.ts';

const OPTIONS: WebhookOptions = {
  stepOf: plainStep,
  admit: async ({ body, step, world }) => admitBody(Buffer.concat(body), step, world),
  world: () => ({
    objects: NO_OBJECTS,
    failsafe: DEFAULT_CONFIG.failsafe,
    believesAnyServer: false,
    interfaceGroups: [],
  }),
  changed: async () => {},
  latest: async () => null,
  onFailure: (error) => assert.fail(error),
};

const POLICY = {
  apiVersion: 'nodewall.io/v1alpha1',
  kind: 'ClusterNetworkPolicy',
  metadata: { name: 'p' },
  spec: { priority: 0, appliedTo: [{ nodeSelector: {} }] },
};
const REVIEW = {
  apiVersion: 'admission.k8s.io/v1',
  kind: 'AdmissionReview',
  request: { uid: 'u', operation: 'CREATE', object: POLICY, oldObject: null },
};
const POST = { method: 'POST', headers: JSON_TYPE, body: JSON.stringify(REVIEW) };

describe('a webhook on the port of agents', () => {
  const bed = new ServerBed();
  let proven = 0;
  const start = () => {
    proven = 0;
    return bed.start({
      beside: (keep) =>
        sharedWebhook(OPTIONS, (socket) => {
          proven++;
          keep(socket);
        }),
    });
  };

  it('answers the API server, which has no token and no certificate', async () => {
    const running = await start();
    const { code, body } = await bed.ask(running, '/validate', '', POST);
    const { response } = body as { response: { allowed: boolean; status: { message: string } } };
    assert.deepEqual([code, response.allowed, proven], [200, false, 1]);
    assert.match(response.status.message, /^ClusterNetworkPolicy\/p: spec\.priority: must be/);
  });

  it('says nothing to others, whatever they present: all else needs what it needs without it', async () => {
    const running = await start();
    for (const [path, token, wanted] of [
      ['/validat', '', 401],
      ['/', '', 401],
      ['/validate/x', 'user.a', 404],
      [NODE_VIEWS_PATH, '', 401],
      [NODE_VIEWS_PATH, 'agent.cp-1', 405],
      [`${NODE_VIEWS_PATH}/cp-1`, 'agent.cp-1', 405],
    ] as const)
      assert.equal((await bed.ask(running, path, token, POST)).code, wanted, path);
    assert.equal((await bed.ask(running, `${NODE_VIEWS_PATH}/cp-1`, 'agent.cp-1')).code, 200);
    assert.equal(proven, 0);
  });
});
