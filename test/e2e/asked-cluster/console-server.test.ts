/**
 * The console's server side: `nodewall console` asks a real API server, which asks one of two
 * controllers, with a user's own rights.
 */

import assert from 'node:assert/strict';
import { cellState, OVERVIEW_WATCH, type Overview } from '../../../apis/console.ts';
import type { Audit, DeniedPeers, Drops, Lint, Preview } from '../../../apis/console-documents.ts';
import { findingText } from '../../../apis/lint/finding.ts';
import { PAGE_HEADERS } from '../../../controller/console/static-files.ts';
import { kernelSuite } from '../../kernel/kernel-suite.ts';
import { tcp } from '../../kernel/manifests.ts';
import { until } from '../../kernel/until.ts';
import { NODE, PAGE, PORTS, SCRIPT_NAME, type User } from '../asked-bed.ts';
import { CONSOLE_API, type DoorWatch, type RunningDoor, startDoor } from '../console-door.ts';
import { controllerService } from '../controller-service.ts';
import { askedCluster } from '../labs.ts';
import { closed, realized, type Story } from '../story-bed.ts';

kernelSuite('the console of a cluster', () => {
  const bed = askedCluster.use();
  let story: Story;
  let jane: RunningDoor;
  let mallory: RunningDoor;
  const watches: DoorWatch[] = [];

  before(async () => {
    ({ story } = bed());
    await bed().renewed();
    jane = await door('jane');
    mallory = await door('mallory');
    const watch = { name: 'watch', action: 'Drop', ports: [tcp(443)] };
    await story.applied(closed('audited', 443, { mode: 'Audit', ingress: [watch] }));
    await story.statusIs('audited', realized(2));
    await story.sees('other0', NODE, 443, 'open');
  });
  after(async () => {
    for (const one of watches) one.close();
    await jane?.end();
    await mallory?.end();
    await story.cluster.apply(controllerService(story.address, [PORTS[0]]));
  });

  function door(user: User): Promise<RunningDoor> {
    const { cluster, controlPlane } = story;
    return startDoor(controlPlane, cluster.folder, ['--kubeconfig', bed().kubeconfigs[user]]);
  }

  /** A document that jane gets. */
  async function document<T>(path: string): Promise<T> {
    const { status, text, headers } = await jane.ask(`${CONSOLE_API}/${path}`);
    assert.equal(status, 200, text);
    assert.equal(headers['cache-control'], 'no-store');
    return JSON.parse(text);
  }

  async function preview(yaml: string): Promise<Preview> {
    const { status, text } = await jane.ask(`${CONSOLE_API}/previews`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ yaml }),
    });
    assert.equal(status, 200, text);
    return JSON.parse(text);
  }

  it('serves the pages, compressed, with a strict policy for their content', async () => {
    assert.match(
      jane.url,
      new RegExp(`^http://127\\.0\\.0\\.1:\\d+/[\\w-]{32}${CONSOLE_API}/console/index\\.html$`),
    );
    const page = await jane.ask(`${CONSOLE_API}/console/plain.html`);
    assert.deepEqual([page.status, page.text], [200, PAGE]);
    assert.match(
      String(page.headers['content-security-policy']),
      /^default-src 'none'; script-src 'self'; .*require-trusted-types-for 'script'$/,
    );
    assert.equal(page.headers['cache-control'], 'no-store');
    const first = await jane.ask(`${CONSOLE_API}/console/index.html`);
    assert.equal(first.status, 200);
    for (const [name, value] of Object.entries(PAGE_HEADERS)) assert.equal(first.headers[name], value);
    const script = await jane.ask(`${CONSOLE_API}/console/${SCRIPT_NAME}`, {
      headers: { 'accept-encoding': 'gzip' },
    });
    assert.equal(script.headers['content-encoding'], 'gzip');
    assert.ok(Number(script.headers['content-length']) < 200, 'it is compressed');
    assert.match(String(script.headers['cache-control']), /immutable/);
    assert.equal((await jane.ask(`${CONSOLE_API}/console/none.js`)).status, 404);
  });

  it('says what is in force where', async () => {
    const overview = await document<Overview>('overviews/cluster');
    assert.deepEqual(
      overview.nodes.map(({ name, phase }) => `${name} ${phase}`),
      ['cp-1 Enforced', 'worker-1 Enforced', 'worker-2 Enforced'],
    );
    assert.deepEqual(
      overview.policies.map(({ name, mode, phase, generation, enforcedGeneration }) => [
        ...[name, mode, phase, generation, enforcedGeneration],
      ]),
      [
        ['audited', 'Audit', 'Realized', 1, 1],
        ['web', 'Enforce', 'Realized', 1, 1],
      ],
    );
    const [web] = overview.policies.filter(({ name }) => name === 'web');
    assert.ok(web !== undefined);
    const cells = overview.nodes.map((_, i) => cellState(overview, web, i));
    assert.deepEqual(cells, ['NotApplied', 'InForce', 'InForce']);
    assert.ok(web.since !== null || web.sinceAtLeast !== null);
    assert.ok(web.changed !== null && Date.parse(web.changed.time) > 0, 'by managedFields');
    assert.deepEqual(overview.problems, []);
  });

  it('shows a change in the watch as it happens, on every replica', async () => {
    const { cluster, address } = story;
    for (const [i, port] of [...PORTS.entries()].reverse()) {
      await cluster.apply(controllerService(address, [port]));
      const watch = await jane.watch(`${CONSOLE_API}/${OVERVIEW_WATCH}`);
      watches.push(watch);
      const first = await watch.lines.next();
      assert.equal(first.value?.type, 'overview');
      const name = `watched-${i}`;
      await story.applied(closed(name, 8080));
      for (;;) {
        const { value, done } = await watch.lines.next();
        assert.equal(done, false);
        if (value?.type !== 'change') continue;
        const found = value.policies?.find((one: { name: string }) => one.name === name);
        if (found?.phase === 'Realized' && found.exceptions.length === 0 && found.since !== null) break;
      }
      watch.close();
    }
  });

  it('knows who was denied, by which rule', async () => {
    let peers: DeniedPeers | null = null;
    await until('the inventory has the denied flow', async () => {
      await story.sees('other0', NODE, 80, 'closed');
      peers = await document<DeniedPeers>('overviews/peers');
      return peers.flows.some(({ port }) => port === 80);
    });
    const found = (peers as DeniedPeers | null)?.flows.find(({ port }) => port === 80);
    assert.deepEqual(
      [found?.verdict, found?.decision, found?.nodes],
      ['Drop', { verdict: 'Drop', policy: 'web', rule: 'close' }, [NODE]],
    );
    const one = await document<DeniedPeers>('overviews/peers?node=worker-2');
    assert.deepEqual([one.asked.nodes, one.asked.notAsked, one.flows], [['worker-2'], 2, []]);
    assert.equal((await jane.ask(`${CONSOLE_API}/overviews/peers?node=nobody`)).status, 404);
  });

  it('counts drops by rule and node', async () => {
    let drops: Drops | null = null;
    await until(
      'a report has told of the drops',
      async () => {
        await story.sees('other0', NODE, 80, 'closed');
        drops = await document<Drops>('overviews/drops');
        return drops.rules.length > 0 && drops.nodes.length > 0;
      },
      { limit: 100_000, detail: () => JSON.stringify(drops) },
    );
    const { rules, nodes, total } = drops as unknown as Drops;
    assert.deepEqual([rules[0]?.policy, rules[0]?.rule, rules[0]?.action], ['web', 'close', 'Drop']);
    assert.deepEqual(
      nodes.map(({ node }) => node),
      [NODE],
    );
    assert.ok(total.packets > 0 && total.packetsPerSecond > 0);
    assert.equal(
      total.series.reduce((sum, one) => sum + one, 0),
      total.packets,
    );
  });

  it('says what an Audit policy would have done', async () => {
    const audit = await document<Audit>('overviews/audit');
    assert.deepEqual(
      audit.rules.map(({ policy, rule, nodes }) => [policy, rule, nodes]),
      [['audited', 'watch', [NODE]]],
    );
    const peer = audit.peers.find(({ policy }) => policy === 'audited');
    assert.deepEqual(
      [peer?.policy, peer?.verdict, peer?.port, peer?.nodes],
      ['audited', 'Drop', 443, [NODE]],
    );
    assert.deepEqual(audit.asked.nodes, ['worker-1', 'worker-2']);
  });

  it('lints the policies in force', async () => {
    await story.applied(closed('twice', 80, { priority: 9 }));
    await story.statusIs('twice', realized(2));
    const { findings } = await document<Lint>('overviews/lint');
    const found = findings.find(({ policy }) => policy === 'twice');
    assert.deepEqual([found?.kind, found?.nodes], ['unreachable', ['worker-1', 'worker-2']]);
    assert.match(found === undefined ? '' : findingText(found), /^decides nothing: web\/close/);
  });

  it('previews a change, and stores nothing', async () => {
    const yaml = JSON.stringify(
      closed('web', 22, { ingress: [{ name: 'ssh', action: 'Drop', ports: [tcp(22)] }] }),
    );
    await until('worker-1 has seen a connection to port 22', async () => {
      await story.sees('other0', NODE, 22, 'open');
      const { impact } = await preview(yaml);
      return 'flows' in impact && impact.flows.some(({ port }) => port === 22);
    });
    const found = await preview(yaml);
    assert.deepEqual(found.objects, [{ kind: 'ClusterNetworkPolicy', name: 'web', change: 'replaced' }]);
    assert.deepEqual(
      found.groups.map(({ nodes }) => nodes),
      [['worker-1', 'worker-2']],
    );
    const rows = found.groups.flatMap(({ changes }) =>
      changes.map(({ flowsText, before, after }) => `${flowsText}: ${before}, ${after}`),
    );
    assert.ok(rows.includes('tcp port 22: Allow, Drop'), rows.join('\n'));
    const all = await preview(
      JSON.stringify(closed('all', 1, { ingress: [{ name: 'rest', action: 'Drop' }] })),
    );
    assert.ok(all.problems.some(({ severity, message }) => severity === 'warning' && /SSH/.test(message)));
    assert.ok('flows' in found.impact);
    const denied = found.impact.flows.filter(({ port }) => port === 22);
    assert.deepEqual(
      denied.map(({ nodes }) => nodes),
      [[NODE], [NODE]].slice(0, denied.length),
    );
    assert.deepEqual((await story.status('web'))?.observedGeneration, 1);
  });

  it('names the errors of a preview, with their lines', async () => {
    const { problems, impact } = await preview(
      'apiVersion: nodewall.io/v1alpha1\nkind: ClusterNetworkPolicy\nmetadata: {name: x}\nspec:\n  priority: 0\n',
    );
    assert.ok(
      problems.some(
        ({ line, path, severity }) => line === 5 && path === 'spec.priority' && severity === 'error',
      ),
    );
    assert.ok('reason' in impact);
    const node = await preview('{apiVersion: v1, kind: Node, metadata: {name: n}}');
    assert.match(node.problems[0]?.message ?? '', /^only ClusterNetworkPolicies/);
    const text = await preview('<script>alert(1)</script>');
    assert.equal(text.problems[0]?.severity, 'error');
  });

  it('tells a user without the role which right is missing', async () => {
    for (const [path, what] of [
      ['overviews/cluster', 'overviews'],
      ['console/index.html', 'console'],
      [OVERVIEW_WATCH, 'overviews'],
    ]) {
      const { status, text } = await mallory.ask(`${CONSOLE_API}/${path}`);
      assert.equal(status, 403);
      const { kind, message } = JSON.parse(text);
      assert.equal(kind, 'Status');
      assert.match(message, new RegExp(`cannot (get|watch) resource "${what}"`));
    }
    const { status } = await mallory.ask(`${CONSOLE_API}/previews`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"yaml":""}',
    });
    assert.equal(status, 403);
  });

  it('keeps the door shut', async () => {
    const page = `${jane.prefix}${CONSOLE_API}/console/index.html`;
    const refused: [string, number, Parameters<RunningDoor['ask']>[1]][] = [
      ['another host (DNS rebinding)', 403, { whole: page, headers: { host: 'evil.example' } }],
      ['another port', 403, { whole: page, headers: { host: '127.0.0.1:1' } }],
      ['no secret', 404, { whole: `${CONSOLE_API}/console/index.html` }],
      ['another secret', 404, { whole: `/${'a'.repeat(32)}${CONSOLE_API}/console/index.html` }],
      ["another site's page", 403, { whole: page, headers: { origin: 'https://evil.example' } }],
      ['a frame or fetch of another site', 403, { whole: page, headers: { 'sec-fetch-site': 'cross-site' } }],
      [
        'a script of another site',
        403,
        {
          whole: page,
          headers: {
            'sec-fetch-site': 'cross-site',
            'sec-fetch-mode': 'no-cors',
            'sec-fetch-dest': 'script',
          },
        },
      ],
      [
        'another port of this machine',
        403,
        { whole: page, headers: { 'sec-fetch-site': 'same-site', origin: 'http://127.0.0.1:1' } },
      ],
      ['another API group', 403, { whole: `${jane.prefix}/api/v1/namespaces/kube-system/secrets` }],
      ['RBAC', 403, { whole: `${jane.prefix}/apis/rbac.authorization.k8s.io/v1/clusterroles` }],
      ['a group with a like name', 403, { whole: `${jane.prefix}/apis/nodewall.io.evil.example/v1` }],
      ['dots', 403, { whole: `${jane.prefix}/apis/nodewall.io/../../api/v1/secrets` }],
      ['encoded dots', 403, { whole: `${jane.prefix}/apis/nodewall.io/%2e%2e/%2e%2e/api/v1/secrets` }],
      ['an encoded slash', 403, { whole: `${jane.prefix}/apis/nodewall.io/..%2f..%2fapi/v1/secrets` }],
      ['a backslash', 403, { whole: `${jane.prefix}/apis/nodewall.io/..\\..\\api` }],
      ['two slashes', 403, { whole: `${jane.prefix}//api/v1/secrets` }],
      ['a whole URL', 404, { whole: `http://${jane.host}${page}` }],
      [
        'a write',
        405,
        {
          whole: `${jane.prefix}/apis/nodewall.io/v1alpha1/clusternetworkpolicies`,
          method: 'POST',
          body: '{}',
          headers: { 'content-type': 'application/json' },
        },
      ],
      [
        'a deletion',
        405,
        { whole: `${jane.prefix}/apis/nodewall.io/v1alpha1/clusternetworkpolicies/web`, method: 'DELETE' },
      ],
      [
        'a form',
        415,
        {
          whole: `${jane.prefix}${CONSOLE_API}/previews`,
          method: 'POST',
          body: '{"yaml":""}',
          headers: { 'content-type': 'text/plain' },
        },
      ],
    ];
    for (const [what, status, asking] of refused) {
      const answer = await jane.ask('', asking);
      assert.equal(answer.status, status, `${what}: ${answer.text}`);
      assert.doesNotMatch(answer.text, new RegExp(jane.prefix.slice(1)), what);
    }
    const own = { 'sec-fetch-site': 'same-origin', origin: `http://${jane.host}` };
    assert.equal((await jane.ask(`${CONSOLE_API}/overviews/drops`, { headers: own })).status, 200);
    const opened = {
      'sec-fetch-site': 'cross-site',
      'sec-fetch-mode': 'navigate',
      'sec-fetch-dest': 'document',
    };
    assert.equal((await jane.ask(`${CONSOLE_API}/console/index.html`, { headers: opened })).status, 200);
    const policies = await jane.ask('/apis/nodewall.io/v1alpha1/clusternetworkpolicies');
    assert.equal(policies.status, 200, 'the other API group');
    const asSomebody = await mallory.ask(`${CONSOLE_API}/overviews/cluster`, {
      headers: { 'impersonate-user': 'admin', 'x-remote-user': 'admin', authorization: 'Bearer x' },
    });
    assert.equal(asSomebody.status, 403, 'headers that name a user do not pass');
  });

  it('ends with Ctrl-C', async () => {
    const one = await door('jane');
    assert.equal(await one.end(), 0);
  });
});
