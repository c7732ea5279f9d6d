import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { NO_OBJECTS, type Tier } from '../../apis/objects.ts';
import type { AdmissionWorld } from './admission.ts';
import { AdmissionOverrunError, AdmissionProcess } from './admission-process.ts';
import type { BodyAdmission } from './admit-body.ts';

const WORLD: AdmissionWorld = {
  objects: NO_OBJECTS,
  failsafe: DEFAULT_CONFIG.failsafe,
  interfaceGroups: [],
  believesAnyServer: false,
};
const TIER: Tier = { kind: 'Tier', apiGroup: 'nodewall.io', name: 'mine', priority: 3 };

function bodyOf(spec: object): Buffer {
  const object = {
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'ClusterNetworkPolicy',
    metadata: { name: 'p' },
    spec: { priority: 1, appliedTo: [{ nodeSelector: {} }], ...spec },
  };
  const request = { uid: 'u', operation: 'CREATE', object, oldObject: null };
  return Buffer.from(JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request }));
}

describe('AdmissionProcess', () => {
  let admission: AdmissionProcess;
  afterEach(() => admission.close());

  function admit(body: Buffer, world = WORLD, isWanted = () => true): Promise<BodyAdmission | null> {
    return admission.admit({ body: [body], step: 'validate', world, source: 'a', isWanted });
  }

  it('answers by each state of the world', async () => {
    admission = new AdmissionProcess();
    const named = bodyOf({ tier: 'mine' });
    const refused = await admit(named);
    assert.match(refused?.text ?? '', /there is no Tier/);
    assert.equal(refused?.isTransient, true);
    assert.deepEqual(
      refused?.names.map(({ to, name }) => [to, name]),
      [['Tier', 'mine']],
    );
    const known = { ...WORLD, objects: { ...NO_OBJECTS, tiers: [TIER] } };
    assert.match((await admit(named, known))?.text ?? '', /"allowed":true/);
    assert.match((await admit(named))?.text ?? '', /there is no Tier/);
    const unknown = { ...WORLD, objects: null };
    assert.match((await admit(named, unknown))?.text ?? '', /has just started/);
  });

  it('calls a refusal final if no object can have the name that is missing', async () => {
    admission = new AdmissionProcess();
    const refused = await admit(bodyOf({ tier: 'a'.repeat(254) }));
    assert.match(refused?.text ?? '', /there is no Tier/);
    assert.deepEqual([refused?.isTransient, refused?.names], [false, []]);
  });

  it('finds that a body is not a review, and checks none that nobody waits for', async () => {
    admission = new AdmissionProcess();
    assert.equal(await admit(Buffer.from('{}')), null);
    assert.equal(await admit(Buffer.from('{')), null);
    assert.equal(await admit(bodyOf({}), WORLD, () => false), null);
  });

  it('gives up a body that needs too much time, and answers the next one', async () => {
    const limits = { time: 1, heap: 256 };
    admission = new AdmissionProcess(limits);
    const long = Buffer.from(`[${'{},'.repeat(1_000_000)}{}]`);
    await assert.rejects(admit(long), AdmissionOverrunError);
    limits.time = 20_000;
    assert.match((await admit(bodyOf({})))?.text ?? '', /"allowed":true/);
  });

  it('gives up a body that needs too much memory, and answers the next one', async () => {
    admission = new AdmissionProcess({ time: 20_000, heap: 40 });
    const large = Buffer.from(`[${'{"a":[]},'.repeat(1_600_000)}{}]`);
    await assert.rejects(admit(large), AdmissionOverrunError);
    assert.match((await admit(bodyOf({})))?.text ?? '', /"allowed":true/);
  });
});
