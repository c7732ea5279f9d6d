import assert from 'node:assert/strict';
import { definitionKey, type LastDefinition, toDefinitionText } from '../../apis/last-definition.ts';
import type { ClusterGroup } from '../../apis/objects.ts';
import { type FakeClock, fakeClock } from '../../test/fake/fake-clock.ts';
import type { KubeRequest } from '../kubeapi/kube-api.ts';
import { KubeError } from '../kubeapi/kube-error.ts';
import type { DefinitionUser, LastDefinitions } from '../watch/source.ts';
import { DefinitionKeeper, type DefinitionPatch, type Deletion } from './definition-keeper.ts';

const OFFICE: ClusterGroup = {
  kind: 'ClusterGroup',
  apiGroup: 'nodewall.io',
  name: 'office',
  spec: { ipBlocks: [{ cidr: '192.0.2.0/24' }] },
};
const USER = {
  kind: 'ClusterNetworkPolicy',
  apiGroup: 'nodewall.io',
  name: 'p',
  uid: 'u',
  generation: 3,
} as const;
const PATH = '/apis/nodewall.io/v1alpha1/clusternetworkpolicies/p';
const DELETION: Deletion = {
  kind: 'ClusterGroup',
  name: 'office',
  uid: 'a',
  objects: [OFFICE],
  users: [{ ...USER, uses: [0] }],
};

function stored(object: ClusterGroup, deletion: string, at = 0): LastDefinition {
  const text = toDefinitionText(object, 3, new Date(at));
  const key = definitionKey(object, deletion);
  return { key, text, generation: 3, recorded: new Date(at).toISOString(), object };
}

function definitions(user: Partial<DefinitionUser>, more: Partial<LastDefinitions> = {}): LastDefinitions {
  const users = [{ ...USER, uses: [], stored: [], unread: [], ...user }];
  return { users, gone: new Set(), live: new Set(), unsaved: new Set(), ...more };
}

describe('the last definitions in statuses', () => {
  let submitted: [string, DefinitionPatch][];
  let said: string[];
  let requests: KubeRequest[];
  let answer: (request: KubeRequest) => unknown;
  let keeper: DefinitionKeeper;
  let clock: FakeClock;
  let today: Date;

  beforeEach(() => {
    submitted = [];
    said = [];
    requests = [];
    answer = ({ body }) => body;
    clock = fakeClock();
    today = new Date(0);
    const write = (line: string): void => void said.push(line);
    keeper = new DefinitionKeeper({
      writer: {
        submit: (path, _uid, patch) => void submitted.push([path, patch]),
        forget: () => {},
        has: () => false,
        clear: async () => {},
        waiting: () => 0,
      },
      request: async <T>(request: KubeRequest) => {
        requests.push(request);
        return answer(request) as T;
      },
      events: { referenceDeleted: ({ name }, why) => void said.push(`${name}: ${why}`) },
      clock: Object.assign(clock, { date: () => today }),
      log: { warn: write } as never,
    });
  });

  it('are written before the object goes, by any controller, and the API server must have them', async () => {
    assert.equal(await keeper.keep(DELETION), null);
    const key = 'ClusterGroup.nodewall.io/office/a';
    assert.deepEqual(requests[0]?.path, `${PATH}/status`);
    assert.deepEqual(requests[0].body, {
      metadata: { uid: 'u' },
      status: { lastDefinitions: { [key]: toDefinitionText(OFFICE, 3, new Date(0)) } },
    });
    // A CustomResourceDefinition of an earlier version drops the field.
    answer = () => ({ status: {} });
    assert.match((await keeper.keep(DELETION)) ?? '', /apply deploy\/crds of this version/);
    answer = () => {
      throw new KubeError('the server is busy', { reason: 'TooManyRequests' });
    };
    assert.match((await keeper.keep(DELETION)) ?? '', /can't be stored .* the server is busy; try again/);
    // The user went, too.
    answer = () => {
      throw new KubeError('gone', { reason: 'NotFound' });
    };
    assert.equal(await keeper.keep(DELETION), null);
  });

  it('are refused where no status can have them, before anything is written', async () => {
    const antrea = { ...USER, apiGroup: 'crd.antrea.io', uses: [0] } as const;
    assert.match(
      (await keeper.keep({ ...DELETION, users: [antrea] })) ?? '',
      /^is in use by ClusterNetworkPolicy\/p, whose status can't have its definition/,
    );
    keeper.publish({
      definitions: definitions({}, { unsaved: new Set(['ClusterNetworkPolicy|nodewall.io||p']) }),
    });
    assert.match((await keeper.keep(DELETION)) ?? '', /version in force is not in its status; try again/);
    keeper.publish({ definitions: definitions({}) });
    const ipBlocks = Array.from({ length: 6_000 }, (_, i) => ({ cidr: `10.${i >> 8}.${i & 255}.0/24` }));
    const large = { ...DELETION, objects: [{ ...OFFICE, spec: { ipBlocks } }] };
    assert.match((await keeper.keep(large)) ?? '', /no room for its definition \(\d+ of 131072 characters\)/);
    assert.deepEqual(requests, []);
  });

  it('are in all statuses, or the deletion is refused', async () => {
    const users = Array.from({ length: 100 }, (_, i) => ({
      ...USER,
      name: `p${i}`,
      uid: `u${i}`,
      uses: [0],
    }));
    assert.equal(await keeper.keep({ ...DELETION, users }), null);
    assert.equal(new Set(requests.map(({ path }) => path)).size, 100);
    answer = ({ body, path }) => {
      if (path.includes('/p50/')) throw new KubeError('no', { reason: 'InternalError' });
      return body;
    };
    assert.match(
      (await keeper.keep({ ...DELETION, users })) ?? '',
      /ClusterNetworkPolicy\/p50: no; try again/,
    );
  });

  it('are waited for no longer than the API server waits for the answer', async () => {
    answer = ({ signal }) =>
      new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
    assert.match(
      (await keeper.keep(DELETION, 20)) ?? '',
      /^its definition is not yet in the statuses of all 1/,
    );
  });

  it('are written in the time that is left, of which a clock gives fractions', async () => {
    for (const left of [1_800.7, 2_499.2]) assert.equal(await keeper.keep(DELETION, left), null);
    assert.equal(requests.length, 2);
    for (const left of [0.4, 0, -3.2])
      assert.equal(await keeper.keep({ ...DELETION, users: [] }, left), null);
  });

  it('are written by several tries where one has no time for all', async () => {
    const users = Array.from({ length: 100 }, (_, i) => ({
      ...USER,
      name: `p${i}`,
      uid: `u${i}`,
      uses: [0],
    }));
    const deletion = { ...DELETION, users };
    const written = new Map<string, LastDefinition>();
    answer = ({ body, path }) => {
      clock.pass(50);
      written.set(users.find(({ name }) => path.includes(`/${name}/`))?.uid ?? '', stored(OFFICE, 'a'));
      return body;
    };
    const publish = (): void => {
      const all = users.map((user) => ({
        ...user,
        uses: [],
        stored: [written.get(user.uid) ?? []].flat(),
        unread: [],
      }));
      keeper.publish({ definitions: { ...definitions({}), users: all } });
    };
    assert.match((await keeper.keep(deletion)) ?? '', /not yet in the statuses of all 100 that use it/);
    assert.ok(written.size < 100);
    publish();
    assert.match((await keeper.keep(deletion)) ?? 'kept', /of all 100|kept/);
    publish();
    assert.equal(await keeper.keep(deletion), null);
    // None was written twice.
    assert.deepEqual([requests.length, written.size], [100, 100]);
    publish();
    requests = [];
    assert.equal(await keeper.keep(deletion), null);
    assert.deepEqual(requests, []);
    // Another definition, and one of a user that was edited since, replace what is there.
    const other = { ...OFFICE, spec: { ipBlocks: [{ cidr: '198.51.100.0/24' }] } };
    answer = ({ body }) => body;
    const [first, ...others] = users;
    const edited = [{ ...(first ?? assert.fail()), generation: 4 }, ...others];
    assert.equal(await keeper.keep({ ...deletion, users: edited }), null);
    assert.equal(requests.length, 1);
    assert.equal(await keeper.keep({ ...deletion, objects: [other] }), null);
    assert.equal(requests.length, 101);
  });

  it('of deletions that nobody asked about are written by the leader, and said once', async () => {
    keeper.publish({ definitions: definitions({ uses: [OFFICE] }) });
    assert.deepEqual(submitted, []);
    await keeper.lead(true);
    const key = 'ClusterGroup.nodewall.io/office';
    assert.deepEqual(submitted.splice(0), [[PATH, { [key]: toDefinitionText(OFFICE, 3, new Date(0)) }]]);
    assert.equal(said.length, 2);
    assert.match(said[1] ?? '', /^p: it uses deleted objects, .*: ClusterGroup office; create them again/);
    keeper.publish({ definitions: definitions({ uses: [OFFICE], stored: [stored(OFFICE, '')] }) });
    assert.deepEqual([submitted, said.length, keeper.count()], [[], 2, 1]);
  });

  it('are removed by the leader once nobody needs them, and never while the object exists', async () => {
    await keeper.lead(true);
    const other = { ...OFFICE, spec: { ipBlocks: [{ cidr: '198.51.100.0/24' }] } };
    const all = [stored(OFFICE, 'a', 2), stored(OFFICE, 'b', 1), stored(other, 'c')];
    const keys = all.map(({ key }) => key);
    // The newest of equal definitions is enough.
    keeper.publish({ definitions: definitions({ uses: [OFFICE], stored: all }) });
    assert.deepEqual(submitted.splice(0), [[PATH, { [keys[1] ?? '']: null, [keys[2] ?? '']: null }]]);
    // A deletion of an object that exists may be under way.
    keeper.publish({ definitions: definitions({ stored: all }, { live: new Set(['a', 'b', 'c']) }) });
    assert.deepEqual(submitted, []);
    keeper.publish({ definitions: definitions({ stored: all }, { live: new Set(['b']) }) });
    assert.deepEqual(submitted, [[PATH, { [keys[0] ?? '']: null, [keys[2] ?? '']: null }]]);
  });

  it('of a newer version stay while the object is used, and count more than what this version writes', async () => {
    today = new Date(1_800_000_000_000);
    await keeper.lead(true);
    const [own, newer] = ['ClusterGroup.nodewall.io/office', 'ClusterGroup.nodewall.io/office/a'];
    const other = { key: 'ClusterGroup.nodewall.io/office-2/b', text: '{}' };
    const unread = [{ key: newer, text: '{"later":1}' }, other];
    keeper.publish({ definitions: definitions({ uses: [OFFICE], unread }) });
    const [[, patch = {}] = []] = submitted.splice(0);
    assert.deepEqual(Object.keys(patch), [own, other.key]);
    assert.deepEqual([patch[newer], patch[other.key]], [undefined, null]);
    assert.equal(JSON.parse(patch[own] ?? '').recorded, '1970-01-01T00:00:00.000Z');
    const written = stored(OFFICE, '');
    keeper.publish({ definitions: definitions({ uses: [OFFICE], stored: [written], unread: [] }) });
    keeper.publish({
      definitions: definitions({ uses: [OFFICE], stored: [written], unread: [unread[0] ?? other] }),
    });
    assert.deepEqual(submitted, [], 'both stay');
    // A newer leader wrote it, of a deletion that no controller was asked about.
    keeper.publish({ definitions: definitions({ uses: [OFFICE], unread: [{ key: own, text: '{}' }] }) });
    assert.deepEqual(submitted, []);
    keeper.publish({ definitions: definitions({ unread: [{ key: newer, text: '{"later":1}' }] }) });
    assert.deepEqual(submitted, [[PATH, { [newer]: null }]]);
  });

  it('are removed, and counted until then, where they are not valid any more', async () => {
    const key = 'ClusterGroup.nodewall.io/old/a';
    const unread = [{ key, text: 'x'.repeat(131_000) }];
    keeper.publish({ definitions: definitions({ unread }) });
    assert.match((await keeper.keep(DELETION)) ?? '', /no room for its definition \(13\d{4} of 131072/);
    await keeper.lead(true);
    assert.deepEqual(submitted.splice(0), [[PATH, { [key]: null }]]);
    assert.match(said.join(), /not valid in this version of nodewall/);
    keeper.publish({ definitions: definitions({ unread }, { live: new Set(['a']) }) });
    assert.deepEqual(submitted, [], 'its deletion may be under way');
  });
});
