import assert from 'node:assert/strict';
import { text } from 'node:stream/consumers';
import { KubeConfig } from '@kubernetes/client-node';
import fc from 'fast-check';
import { type CustomResourceDefinition, customResourceDefinitions } from '../../../apis/schema/crd.ts';
import { validateObject } from '../../../apis/validate/object.ts';
import { type ApiConnection, apiConnection } from '../../../controller/kubeapi/connection.ts';
import { removeAll } from '../../cluster/admin-api.ts';
import type { TestCluster } from '../../cluster/cluster.ts';
import { freePorts } from '../../cluster/daemon.ts';
import { type Pair, type PairsOfObjects, pairsOfObjects } from '../../generate/pair.ts';
import { until } from '../../kernel/until.ts';
import { checkAsync, runs } from '../../properties/runs.ts';
import { ROOT, readSource } from '../../structure/source-file.ts';
import { ControllerProcess } from '../controller-process.ts';
import { controllerKubeconfig } from '../installed.ts';
import { apiServer } from '../labs.ts';

type Kind = Pair['kind'];
type Spec = Readonly<Record<string, unknown>>;

interface Stored {
  readonly kind: Kind;
  readonly metadata: {
    readonly name: string;
    readonly managedFields?: readonly { readonly manager: string; readonly fieldsV1: object }[];
  };
  readonly spec: Spec;
}

const PLURALS: Readonly<Record<Kind, string>> = {
  ClusterNetworkPolicy: 'clusternetworkpolicies',
  ClusterGroup: 'clustergroups',
  Tier: 'tiers',
};

/** How many times as many pairs of objects: reapply.long.ts sets it. */
const MORE = Number(process.env.NODEWALL_MORE_PAIRS ?? 1);

/** One object, what it is and what it becomes, and in which way. */
interface Change extends Pair {
  readonly name: string;
}

/** Steps reject with what was refused. */
interface Way {
  readonly name: string;
  /** Brings the first specs. */
  store(changes: readonly Change[]): Promise<void>;
  /** Brings the second ones. */
  change(changes: readonly Change[]): Promise<void>;
}

const WEB = { matchLabels: { app: 'web' } };
const BY_GITOPS = ['--server-side', '--force-conflicts', '--field-manager=gitops'];

const object = (kind: Kind, name: string, spec: object | undefined): object => ({
  apiVersion: 'nodewall.io/v1alpha1',
  kind,
  metadata: { name },
  spec,
});

/** As clusters have them that were set up before CRDs said how they are merged. */
function granularCrds(): CustomResourceDefinition[] {
  const text = JSON.stringify(customResourceDefinitions(), (key, value) =>
    key === 'x-kubernetes-map-type' || value === 'atomic' ? undefined : value,
  );
  return JSON.parse(text);
}

/** Of a cluster without CRDs of nodewall: it applies older ones first, and leaves today's. */
describe('one object applied after another, on a real API server with the webhook', function () {
  this.timeout(240_000 * MORE * runs(1));
  const begun = apiServer.use();
  let cluster: TestCluster;
  let api: ApiConnection;
  let controller: ControllerProcess;

  before(async () => {
    cluster = begun();
    const config = new KubeConfig();
    config.loadFromFile(cluster.kubeconfig);
    api = apiConnection(config, 8);
    await cluster.apply(JSON.stringify({ apiVersion: 'v1', kind: 'List', items: granularCrds() }));
    await cluster.established();
    await cluster.apply(readSource('deploy/rbac.yaml'));
    const [webhookPort = 0] = await freePorts(1);
    controller = await ControllerProcess.start({
      kubeconfig: await controllerKubeconfig(cluster),
      options: ['--webhook-listen', `127.0.0.1:${webhookPort}`],
    });
    await cluster.apply(
      '{apiVersion: v1, kind: Service, metadata: {name: nodewall-controller, namespace: nodewall-system}, ' +
        `spec: {type: ExternalName, externalName: localhost, ports: [{port: ${webhookPort}}]}}`,
    );
    const webhooks = readSource('deploy/kustomize/base/webhooks.yaml');
    // As a site has it that wants the webhook asked about everything: that it is gone would show.
    await cluster.apply(webhooks.replaceAll('9443', `${webhookPort}`).replaceAll('Ignore', 'Fail'));
    let said: string | null = null;
    await until(
      'the webhook is asked',
      async () => {
        said = await apply('probe', 'Tier', 'nobodys', { priority: 0 }).then(() => null, String);
        return said?.includes('denied the request') ?? false;
      },
      { detail: () => `${said}\n${controller.log.join('\n')}` },
    );
  });
  after(async () => {
    api?.close();
    // The next one need not wait for its Lease.
    await controller?.stop('SIGTERM');
    for (const kind of ['mutating', 'validating'])
      await cluster.remove(`${kind}webhookconfiguration`, 'nodewall');
    await cluster.remove('service', 'nodewall-controller', '--namespace=nodewall-system');
    await removeAll(cluster, 'ncnp', 'ncg', 'ntier');
  });

  async function request(
    method: string,
    path: string,
    body?: { readonly type: string; readonly value: object },
  ): Promise<unknown> {
    const response = await api.send({
      method,
      path: `/apis/nodewall.io/v1alpha1/${path}`,
      signal: AbortSignal.timeout(20_000),
      ...(body === undefined
        ? {}
        : { headers: { 'content-type': body.type }, body: JSON.stringify(body.value) }),
    });
    const answer = JSON.parse(await text(response));
    if ((response.statusCode ?? 0) >= 300) throw new Error(`${response.statusCode}: ${answer.message}`);
    return answer;
  }

  /** Server-side apply. Rejects with the API server's message. */
  async function apply(
    manager: string,
    kind: Kind,
    name: string,
    spec: object | undefined,
    force = false,
  ): Promise<Stored> {
    const path = `${PLURALS[kind]}/${name}?fieldManager=${manager}&force=${force}&fieldValidation=Strict`;
    const body = { type: 'application/apply-patch+yaml', value: object(kind, name, spec) };
    return (await request('PATCH', path, body)) as Stored;
  }

  /** kubectl apply, of all in one call. */
  async function kubectlApply(
    changes: readonly Change[],
    spec: 'before' | 'after',
    options: readonly string[] = [],
  ): Promise<void> {
    const items = changes.map((each) => object(each.kind, each.name, each[spec]));
    const stdin = JSON.stringify({ apiVersion: 'v1', kind: 'List', items });
    const { code, stderr } = await cluster.kubectl(['apply', '-f', '-', ...options], { stdin });
    const said = stderr.replaceAll(/^Warning: .*\bspec\b.*\n/gm, '');
    assert.equal(code, 0, said);
    assert.doesNotMatch(stderr, /denied|failed to/);
  }

  function applyAll(changes: readonly Change[], spec: 'before' | 'after', manager: string, force = false) {
    const each = async (change: Change): Promise<void> => {
      const { kind, name } = change;
      await apply(manager, kind, name, change[spec], force).catch((error: Error) => {
        throw new Error(`${error.message}\n${JSON.stringify(change)}`);
      });
    };
    return Promise.all(changes.map(each)).then(() => {});
  }

  const WAYS: readonly Way[] = [
    {
      name: 'client-side',
      store: (changes) => kubectlApply(changes, 'before'),
      change: (changes) => kubectlApply(changes, 'after'),
    },
    {
      name: 'server-side',
      store: (changes) => applyAll(changes, 'before', 'kubectl'),
      change: (changes) => applyAll(changes, 'after', 'kubectl'),
    },
    {
      name: 'client-side, then by a GitOps tool',
      async store(changes) {
        await kubectlApply(changes, 'before');
        await kubectlApply(changes, 'before', BY_GITOPS);
      },
      change: (changes) => kubectlApply(changes, 'after', BY_GITOPS),
    },
    {
      name: 'by a GitOps tool, then client-side',
      async store(changes) {
        await applyAll(changes, 'before', 'gitops', true);
        // From here on kubectl knows what it may take away.
        await kubectlApply(changes, 'before');
      },
      change: (changes) => kubectlApply(changes, 'after'),
    },
  ];

  async function storedSpecs(): Promise<Map<string, Spec>> {
    const lists = await Promise.all(
      Object.entries(PLURALS).map(async ([kind, plural]) => {
        const { items } = (await request('GET', plural)) as { items: Stored[] };
        return items.map(({ metadata, spec }): [string, Spec] => [`${kind}/${metadata.name}`, spec]);
      }),
    );
    return new Map(lists.flat());
  }

  async function addCast({ cast }: PairsOfObjects): Promise<void> {
    for (const { kind, metadata, spec } of cast) await apply('cast', kind as Kind, metadata.name, spec);
  }

  async function remove(changes: readonly Change[]): Promise<void> {
    await Promise.all(changes.map(({ kind, name }) => request('DELETE', `${PLURALS[kind]}/${name}`)));
  }

  async function compare(
    changes: readonly Change[],
    wanted: (change: Change) => { readonly spec: Spec; readonly way: string },
  ): Promise<void> {
    const stored = await storedSpecs();
    for (const change of changes) {
      const { kind, name, before, after } = change;
      const { spec, way } = wanted(change);
      assert.deepEqual(
        withoutGivenNames(stored.get(`${kind}/${name}`), spec),
        withDefaults(kind, spec),
        `${way}: ${JSON.stringify({ kind, before, after })}`,
      );
    }
  }

  /** Each pair in one of the ways, which go side by side. */
  async function changeInAllWays(drawn: PairsOfObjects, between: () => Promise<void> = async () => {}) {
    await addCast(drawn);
    const changes = drawn.pairs.map((pair, i) => ({ ...toJson(pair), name: `pair-${i}` }));
    const of = (way: number) => changes.filter((_, i) => i % WAYS.length === way);
    await Promise.all(WAYS.map(({ store }, way) => store(of(way))));
    await between();
    await Promise.all(WAYS.map(({ change }, way) => change(of(way))));
    const ways = new Map(changes.map((change, i) => [change, WAYS[i % WAYS.length]?.name]));
    await compare(changes, (change) => ({ spec: change.after, way: ways.get(change) ?? '' }));
    await remove(changes);
  }

  const managersOf = ({ metadata }: Stored): string[] =>
    (metadata.managedFields ?? []).map(({ manager }) => manager).sort();

  const emptied = (): Promise<Stored> => apply('a', 'ClusterGroup', 'emptied', { podSelector: {} });

  async function useOurCrds(): Promise<void> {
    await apply('a', 'ClusterGroup', 'emptied', { podSelector: WEB });
    const crds = ['apply', '--server-side', '--force-conflicts', '-f', `${ROOT}/deploy/crds`];
    const { code, stderr } = await cluster.kubectl(crds);
    assert.equal(code, 0, stderr);
    await until('the new CRDs count', () =>
      emptied().then(
        () => true,
        () => false,
      ),
    );
  }

  it('changes objects stored before the CRDs declared merges', async function () {
    const matchExpressions = [{ key: 'track', operator: 'Exists' }];
    const selector = { ...WEB, matchExpressions };
    await apply('a', 'ClusterGroup', 'emptied', { podSelector: WEB });
    await assert.rejects(emptied(), /podSelector: must be an object with fields, not null/);
    await apply('a', 'ClusterGroup', 'shared', { podSelector: WEB });
    await apply('b', 'ClusterGroup', 'shared', { podSelector: { matchExpressions } });
    const draw = fc.noShrink(fc.noBias(pairsOfObjects(2 * MORE * WAYS.length)));
    await checkAsync(this, 1, draw, (drawn) => changeInAllWays(drawn, useOurCrds));
    assert.deepEqual((await emptied()).spec, { podSelector: {} });
    // Both had a part of it; now it is all of either's.
    await assert.rejects(apply('a', 'ClusterGroup', 'shared', { podSelector: {} }), /^Error: 409: .*"b"/);
    const same = await apply('a', 'ClusterGroup', 'shared', { podSelector: selector });
    assert.deepEqual([same.spec, managersOf(same)], [{ podSelector: selector }, ['a', 'b']]);
    const forced = await apply('a', 'ClusterGroup', 'shared', { podSelector: {} }, true);
    assert.deepEqual([forced.spec, managersOf(forced)], [{ podSelector: {} }, ['a']]);
  });

  it('stores the object that was applied last, and rejects no valid one', async function () {
    await useOurCrds();
    const draw = fc.noShrink(fc.noBias(pairsOfObjects(5 * MORE * WAYS.length)));
    await checkAsync(this, 1, draw, (drawn) => changeInAllWays(drawn));
  });

  it('gives a second manager with force the whole list group, of others its own fields', async function () {
    await useOurCrds();
    const draw = fc.noShrink(fc.noBias(pairsOfObjects(16 * MORE)));
    await checkAsync(this, 1, draw, async (drawn) => {
      await addCast(drawn);
      const changes = drawn.pairs.map((pair, i) => ({ ...toJson(pair), name: `pair-${i}` }));
      await applyAll(changes, 'before', 'first');
      const refused = new Set<Change>();
      const wanted = (change: Change): Spec => (refused.has(change) ? change.before : afterTakeover(change));
      for (const change of changes) {
        const { kind, name } = change;
        // What two wrote can be wrong together: both traffic NodePort and egress rules.
        if (validateObject(object(kind, name, wanted(change))).object === null) refused.add(change);
      }
      await applyAll(
        changes.filter((change) => !refused.has(change)),
        'after',
        'second',
        true,
      );
      for (const change of refused) {
        const { kind, name, after } = change;
        await assert.rejects(apply('second', kind, name, after, true), /denied the request/);
      }
      assert.ok(refused.size < changes.length / 4, `${refused.size} refused`);
      await compare(changes, (change) => ({ spec: wanted(change), way: 'a second manager' }));
      await remove(changes);
    });
  });

  it('rejects a null: only a user writes one', async () => {
    await useOurCrds();
    const policy = { priority: 1, appliedTo: [{ nodeSelector: {} }] };
    const nothing = { ...policy, ingress: [{ action: 'Allow', from: null }] };
    await assert.rejects(
      apply('a', 'ClusterNetworkPolicy', 'nothing', nothing),
      /spec\.ingress\[0\]\.from: must be a list, not null/,
    );
    await apply('a', 'ClusterNetworkPolicy', 'nothing', {
      ...policy,
      ingress: [{ action: 'Allow', from: [] }],
    });
    const { spec } = await apply('a', 'ClusterNetworkPolicy', 'nothing', policy);
    assert.deepEqual(spec, withDefaults('ClusterNetworkPolicy', policy));
    await assert.rejects(
      apply('a', 'ClusterGroup', 'nothing', { podSelector: null }),
      /spec\.podSelector: must be an object with fields, not null/,
    );
    await assert.rejects(apply('a', 'ClusterNetworkPolicy', 'nothing', undefined), /: spec: is missing/);
  });
});

/** A group's spec is one value; of the others each field is. */
function afterTakeover({ kind, before, after }: Change): Spec {
  return kind === 'ClusterGroup' ? after : { ...before, ...after };
}

/** What is drawn has objects without a prototype. */
function toJson<T>(value: T): T {
  return JSON.parse(JSON.stringify(value));
}

/** As the API server completes it. */
function withDefaults(kind: Kind, spec: object): object {
  if (kind !== 'ClusterNetworkPolicy') return spec;
  return { tier: 'application', mode: 'Enforce', traffic: 'Host', ...spec };
}

/** Without the names that the webhook gave to rules that had none. */
function withoutGivenNames(stored: Spec | undefined, applied: Spec): Spec | undefined {
  if (stored === undefined) return undefined;
  const spec: Record<string, unknown> = { ...stored };
  for (const direction of ['ingress', 'egress']) {
    const asked = applied[direction] as readonly Spec[] | undefined;
    const rules = spec[direction] as readonly Spec[] | undefined;
    if (rules === undefined) continue;
    spec[direction] = rules.map(({ name, ...rule }, i) => {
      assert.ok(typeof name === 'string' && name !== '', `rule ${i} has no name`);
      return asked?.[i]?.name === undefined ? rule : { name, ...rule };
    });
  }
  return spec;
}
