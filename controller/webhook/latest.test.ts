import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { NO_OBJECTS, type Tier } from '../../apis/objects.ts';
import { type FakeKubeApi, fakeKubeApi } from '../../test/fake/kube-api.ts';
import { type AdmissionWorld, admit } from './admission.ts';
import { admitBody } from './admit-body.ts';
import { latestWorld } from './latest.ts';
import type { AdmissionRequest } from './review.ts';

const ROOT = '/apis/nodewall.io/v1alpha1';
const WORLD: AdmissionWorld = {
  objects: NO_OBJECTS,
  failsafe: DEFAULT_CONFIG.failsafe,
  believesAnyServer: false,
  interfaceGroups: [],
};
const head = (kind: string, name: string) => ({
  apiVersion: 'nodewall.io/v1alpha1',
  kind,
  metadata: { name },
});

function reviewOf(spec: object): AdmissionRequest {
  const object = { ...head('ClusterNetworkPolicy', 'p'), spec: { priority: 1, ...spec } };
  return { uid: 'u', operation: 'CREATE', object, oldObject: null, user: null, isDryRun: false };
}

const NAMING = reviewOf({ tier: 'mine', appliedTo: [{ group: 'all' }], ingress: [{ action: 'Drop' }] });

describe('latestWorld', () => {
  let api: FakeKubeApi;
  let isCurrent: boolean;
  beforeEach(() => {
    api = fakeKubeApi();
    isCurrent = false;
    api.put(`${ROOT}/tiers/mine`, { ...head('Tier', 'mine'), spec: { priority: 20 } });
    api.put(`${ROOT}/clustergroups/all`, { ...head('ClusterGroup', 'all'), spec: { childGroups: ['some'] } });
    api.put(`${ROOT}/clustergroups/some`, { ...head('ClusterGroup', 'some'), spec: { nodeSelector: {} } });
  });

  const latest = (review: AdmissionRequest, world = WORLD, isAsked = false) => {
    const body = JSON.stringify({
      apiVersion: 'admission.k8s.io/v1',
      kind: 'AdmissionReview',
      request: review,
    });
    const names = admitBody(Buffer.from(body), 'validate', WORLD)?.names ?? [];
    return latestWorld({ request: api.request, isCurrent: () => isCurrent })(names, world, isAsked);
  };

  it('reads the named tier and groups, and their children, so that the review passes', async () => {
    assert.match(admit(NAMING, 'validate', WORLD).warnings.join(), /there is no Tier "mine"/);
    const world = await latest(NAMING);
    assert.ok(world !== null);
    assert.equal(admit(NAMING, 'validate', world).isMissing, undefined);
    assert.equal(api.requests.length, 3);
  });

  it('does not ask while the watches are current', async () => {
    isCurrent = true;
    assert.equal(await latest(NAMING), null);
    assert.equal(api.requests.length, 0);
    assert.ok((await latest(NAMING, WORLD, true)) !== null);
  });

  it('leaves out a group of which a child does not exist', async () => {
    api.objects.delete(`${ROOT}/clustergroups/some`);
    const world = await latest(NAMING);
    assert.deepEqual(world?.objects?.groups, []);
    assert.match(
      admit(NAMING, 'validate', world).warnings.join(),
      /"all" itself names a group that does not/,
    );
  });

  it('drops deleted objects, and keeps known ones if the API server does not answer', async () => {
    const tier: Tier = { kind: 'Tier', apiGroup: 'nodewall.io', name: 'old', priority: 30 };
    const known = { ...WORLD, objects: { ...NO_OBJECTS, tiers: [tier] } };
    const review = reviewOf({ tier: 'old', appliedTo: [{ nodeSelector: {} }] });
    assert.deepEqual((await latest(review, known))?.objects?.tiers, []);
    api.before = () => {
      throw new Error('away');
    };
    assert.deepEqual((await latest(review, known))?.objects?.tiers, [tier]);
  });

  it('sends no request for a policy with too many references', async () => {
    const from = Array.from({ length: 65 }, (_, i) => ({ group: `g${i}` }));
    const review = reviewOf({ appliedTo: [{ nodeSelector: {} }], ingress: [{ action: 'Allow', from }] });
    assert.equal(await latest(review), null);
    assert.equal(api.requests.length, 0);
  });
});
