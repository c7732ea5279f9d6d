/** A server without Kubernetes: no manifest declares a Node, and no command names one. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { policy, tcp } from '../kernel/manifests.ts';
import { until } from '../kernel/until.ts';
import { createNamespace, type Namespace } from '../netns/namespace.ts';
import { NODEWALL } from '../program.ts';
import { hosted } from './command-host.ts';
import { closing, createFolder, type Folder, NODE } from './folder.ts';

const MACHINE = hostname().toLowerCase();
const THIS_MACHINE = new RegExp(`no manifest declares a Node: judged for this machine, ${MACHINE} \\(`);
const OTHERS = new RegExp(
  `give --node NAME: the manifests declare cp-1, and none is this machine, ${MACHINE}`,
);
const FLOW = JSON.stringify({ direction: 'ingress', src: '198.51.100.7', protocol: 'tcp', dstPort: 80 });

let folder: Folder;
beforeEach(async () => {
  folder = await createFolder();
  await folder.write('a.json', [closing('a', 80)]);
});
afterEach(() => folder.close());
const at = (...args: readonly string[]) => [...args, '--manifests', folder.manifests];

describe('commands without --node', function () {
  this.timeout(60_000);

  it('speak of this machine, and say so, where no Node is declared', async () => {
    for (const [args, wanted] of [
      [['compile'], /a\/close/],
      [['explain', '--flow', FLOW], new RegExp(`on ${MACHINE}: [^]*Drop: rule a/close`)],
      [['dump', 'state'], new RegExp(`"node": "${MACHINE}"`)],
      [['dump', 'wire'], /a\W+/],
    ] as const) {
      const { status, stdout, stderr } = await hosted(...at(...args));
      assert.equal(status, 0, stderr);
      assert.match(stdout, wanted);
      assert.match(stderr, THIS_MACHINE);
    }
  });

  it('speak of the Node that is declared with the name of this machine', async () => {
    await folder.write('node.json', [{ ...NODE, metadata: { name: MACHINE } }]);
    const { stdout, stderr } = await hosted(...at('dump', 'state'));
    assert.deepEqual(JSON.parse(stdout).nodeAddresses, ['192.0.2.11']);
    assert.match(stderr, /no --node: Node \S+, this machine, as the manifests declare it/);
  });

  it('are refused where other Nodes are declared', async () => {
    await folder.write('node.json', [NODE]);
    for (const args of [['compile'], ['explain', '--flow', FLOW], ['dump', 'wire']]) {
      const { status, stdout, stderr } = await hosted(...at(...args));
      assert.deepEqual([status, stdout], [2, ''], stderr);
      assert.match(stderr, OTHERS);
    }
  });

  it('do not take the name of this machine for a declared Node', async () => {
    const { status, stderr } = await hosted(...at('compile', '--node', MACHINE));
    assert.equal(status, 1);
    assert.match(stderr, new RegExp(`no manifest declares Node ${MACHINE}`));
  });

  it('judge Guardrails and differences by this machine', async () => {
    const mustAllow = [{ name: 'http', direction: 'ingress', ports: [{ protocol: 'TCP', port: 80 }] }];
    const guardrail = {
      apiVersion: 'nodewall.io/v1alpha1',
      kind: 'Guardrail',
      metadata: { name: 'web' },
      spec: { nodeSelector: {}, mustAllow },
    };
    const open = await folder.writeBeside('open/guardrail.json', JSON.stringify(guardrail));
    assert.equal((await hosted('validate', '--manifests', open)).status, 0);
    await folder.write('guardrail.json', [guardrail]);
    const broken = await hosted(...at('validate'));
    assert.equal(broken.status, 1);
    assert.match(broken.stdout, new RegExp(`^Guardrail/web ${MACHINE} .* a/close$`, 'm'));
    assert.match(broken.stderr, THIS_MACHINE);
    const difference = await hosted('diff', open, folder.manifests, '-o', 'json');
    assert.equal(difference.status, 1);
    assert.deepEqual(JSON.parse(difference.stdout).groups[0].nodes, [MACHINE]);
    assert.match(difference.stderr, THIS_MACHINE);
  });
});

kernelSuite('the agent without --node', function () {
  this.timeout(60_000);
  let namespace: Namespace;
  beforeEach(async () => {
    namespace = await createNamespace('server');
  });
  afterEach(() => namespace.close());
  /** The machine's own file of group names is left alone. */
  const config = ['--config', join(import.meta.dirname, '../netns/agent.yaml')];
  const command = () => [NODEWALL, ...at('agent', '--state-dir', folder.stateDir, ...config)];
  const table = async () =>
    (await namespace.run(['nft', '-s', 'list', 'table', 'inet', 'nodewall'], { anyStatus: true })).stdout;

  it('enforces for this machine, and follows its addresses', async () => {
    const fromNodes = policy('nodes', {
      ingress: [
        { name: 'own', action: 'Allow', from: [{ nodeSelector: {} }], ports: [tcp(81)] },
        { name: 'rest', action: 'Drop', ports: [tcp(81)] },
      ],
    });
    await folder.write('b.json', [fromNodes]);
    const agent = namespace.spawn(command());
    let log = '';
    agent.stderr.on('data', (part) => {
      log += part;
    });
    const detail = () => log;
    await until('the rules are there', async () => /tcp dport 80 counter drop/.test(await table()), {
      detail,
    });
    assert.match(log, /no manifest declares a Node: this machine is the Node/);
    assert.doesNotMatch(await table(), /192\.0\.2\.77/);
    await namespace.run(['ip', 'link', 'add', 'uplink', 'type', 'veth', 'peer', 'name', 'router']);
    for (const link of ['uplink', 'router']) await namespace.run(['ip', 'link', 'set', link, 'up']);
    for (const address of ['192.0.2.77', '192.0.2.78']) {
      await namespace.run(['ip', 'address', 'replace', `${address}/24`, 'dev', 'uplink']);
      await until(`${address} is a peer`, async () => (await table()).includes(address), { detail });
    }
    await namespace.run(['ip', 'address', 'del', '192.0.2.77/24', 'dev', 'uplink']);
    await until('192.0.2.77 is no peer', async () => !(await table()).includes('192.0.2.77'), { detail });
    const ended = once(agent, 'exit');
    agent.kill('SIGTERM');
    assert.deepEqual(await ended, [0, null]);
  });

  describe('after the name of its host was changed', () => {
    const named = (name: string, ...argv: readonly string[]) => [
      ...['unshare', '--uts', 'sh', '-c', 'hostname "$1"; shift; exec "$@"', 'sh', name],
      ...argv,
    ];
    const onceAs = (name: string) => namespace.run(named(name, ...command(), '--once'), { anyStatus: true });
    const hasRules = async () => (await table()).includes('tcp dport 80 counter drop');
    /** Selects the Node with this name. */
    const only = (name: string) =>
      policy('a', {
        appliedTo: [{ nodeSelector: { matchLabels: { 'kubernetes.io/hostname': name } } }],
        ingress: [{ name: 'close', action: 'Drop', ports: [tcp(80)] }],
      });

    beforeEach(() => folder.write('a.json', [only('srv01')]));

    it('the rules stay, loudly, until the new name is accepted', async () => {
      assert.equal((await onceAs('srv01')).status, 0);
      for (let round = 0; round < 2; round++) {
        const { status, stderr } = await onceAs('localhost');
        assert.equal(status, 1, stderr);
        assert.match(
          stderr,
          /the host name of this machine is localhost now.*former name srv01: nodewall.io\/a/,
        );
        assert.equal(await hasRules(), true);
      }
      const check = [NODEWALL, 'check', '--machine', '--state-dir', folder.stateDir, ...config];
      const { stdout } = await namespace.run(named('localhost', ...check), { anyStatus: true });
      assert.match(stdout, /problem +node name +this machine is localhost now, .* Node srv01/);
      const accept = [NODEWALL, 'on', '--renamed', '--state-dir', folder.stateDir];
      assert.match((await namespace.run(named('localhost', ...accept))).stdout, /is Node localhost now/);
      assert.equal((await onceAs('localhost')).status, 0);
      assert.equal(await hasRules(), false);
    });

    it('an agent that runs follows edits, and the acceptance', async () => {
      assert.equal((await onceAs('srv01')).status, 0);
      const agent = namespace.spawn(named('srv02', ...command()));
      let log = '';
      agent.stderr.on('data', (part) => {
        log += part;
      });
      const detail = () => log;
      await until('it says so', async () => log.includes('former name srv01'), { detail });
      await folder.write('a.json', [only('srv02')]);
      await until('the new name counts', async () => log.includes('goes by its new name'), { detail });
      assert.equal(await hasRules(), true);
      agent.kill('SIGTERM');
      await once(agent, 'exit');
      const third = namespace.spawn(named('srv03', ...command()));
      third.stderr.on('data', (part) => {
        log += part;
      });
      await until('it says so', async () => log.includes('former name srv02'), { detail });
      assert.equal(await hasRules(), true);
      const accept = [NODEWALL, 'on', '--renamed', '--state-dir', folder.stateDir];
      await namespace.run(named('srv03', ...accept));
      await until('the rules are gone', async () => !(await hasRules()), { detail });
      third.kill('SIGTERM');
      await once(third, 'exit');
    });

    it('policies that do not name it apply to the new name at once', async () => {
      await folder.write('a.json', [closing('a', 80)]);
      assert.equal((await onceAs('srv01')).status, 0);
      assert.equal((await onceAs('srv02')).status, 0);
      assert.equal(await hasRules(), true);
      await folder.write('a.json', [only('srv01')]);
      assert.equal((await onceAs('srv02')).status, 0);
      assert.equal(await hasRules(), false);
    });

    it('a Node that manifests declare by the former name goes on', async () => {
      await folder.write('node.json', [{ ...NODE, metadata: { name: 'srv01' } }, closing('a', 80)]);
      await folder.write('a.json', [closing('b', 81)]);
      assert.equal((await onceAs('srv01')).status, 0);
      const { status, stderr } = await onceAs('srv02');
      assert.equal(status, 1, stderr);
      assert.match(stderr, /former name srv01/);
      assert.equal(await hasRules(), true);
    });
  });

  it('is refused where other Nodes are declared', async () => {
    await folder.write('node.json', [NODE]);
    const { status, stderr } = await namespace.run(command(), { anyStatus: true });
    assert.equal(status, 2);
    assert.match(
      stderr,
      new RegExp(`declare cp-1, and none is this machine, ${MACHINE}; declare it too, or start with --node`),
    );
    assert.equal(await table(), '');
  });
});
