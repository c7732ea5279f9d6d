import assert from 'node:assert/strict';
import { type Ended, nodewall } from './command.ts';
import { hosted } from './command-host.ts';

const COMMANDS = [
  [],
  ['validate'],
  ['compile'],
  ['explain'],
  ['diff'],
  ['agent'],
  ['controller'],
  ['flush'],
  ['off'],
  ['on'],
  ['confirm'],
  ['retry'],
  ['cleanup'],
  ['uninstall'],
  ['interfaces'],
  ['rules'],
  ['log'],
  ['bundle'],
  ['advise'],
  ['migrate'],
  ['check'],
  ['completion'],
  ['names'],
  ['boot-unit'],
  ['egress'],
  ...['status', 'who', 'drain', 'reset'].map((name) => ['egress', name]),
  ['undo'],
  ['rollout'],
  ...['status', 'pause', 'resume', 'undo', 'promote'].map((name) => ['rollout', name]),
  ['dump'],
  ...['objects', 'wire', 'state', 'transaction'].map((stage) => ['dump', stage]),
];

describe('nodewall --help', function () {
  this.timeout(60_000);

  for (const command of COMMANDS) {
    it(`of ${['nodewall', ...command].join(' ')} has an example`, async () => {
      const { status, stdout, stderr } = await hosted(...command, '--help');
      assert.equal(status, 0);
      assert.equal(stderr, '');
      assert.match(stdout, /^Usage: nodewall/);
      assert.match(stdout, /\nExample:\n {2}nodewall \S+/);
    });
  }

  it('lists every command', async () => {
    const { stdout } = await hosted('--help');
    for (const [name, ...more] of COMMANDS)
      if (name !== undefined && more.length === 0) assert.match(stdout, new RegExp(`^ {2}${name} `, 'm'));
  });

  it('has each command in a group', async () => {
    assert.doesNotMatch((await hosted('--help')).stdout, /^Commands:/m);
  });

  it('of the agent names its state directory', async () => {
    assert.match((await hosted('agent', '--help')).stdout, /--state-dir <dir>.*\n?.*\/var\/lib\/nodewall/);
  });

  it('of every command lists --config', async () => {
    for (const command of COMMANDS) {
      if (['', 'dump', 'egress', 'migrate', 'rollout', 'completion'].includes(command.join(' '))) continue;
      assert.match((await hosted(...command, '--help')).stdout, /--config <file>/, command.join(' '));
    }
  });

  it('prints the version', async () => {
    const { status, stdout } = await nodewall('--version');
    assert.equal(status, 0);
    assert.match(stdout, /^\d+\.\d+\.\d+\n$/);
  });
});

const FLAGSHIP = ['--manifests', 'deploy/examples/flagship'];
const FLOW = '{"direction":"ingress"}';

const CLUSTER = ['--controller', 'https://c:1', '--node', 'n'];
const FILES = ['--token-file', 't', '--ca-file', 'c'];

/** Each is wrong usage: nothing is read or done. */
const WRONG: readonly (readonly [args: readonly string[], message: RegExp])[] = [
  [['no-such-command'], /unknown command/],
  [['validate'], /--manifests/],
  [['validate', ...FLAGSHIP, '--no-such-option'], /unknown option/],
  [['validate', ...FLAGSHIP, 'extra'], /too many arguments/],
  [['validate', '--manifests'], /argument missing/],
  [['validate', ...FLAGSHIP, '-o', 'xml'], /Allowed choices are text, json/],
  [['compile', ...FLAGSHIP], /--node/],
  [['compile', '--node', 'cp-1'], /--manifests/],
  [['compile', ...FLAGSHIP, '--node', 'cp-1', '-o', 'text'], /Allowed choices/],
  [['explain', ...FLAGSHIP, '--node', 'cp-1'], /give a connection, as in --from .* or --flow/],
  [
    ['explain', ...FLAGSHIP, '--node', 'cp-1', '--to-port', 'x/y'],
    /--to-port: "x\/y" is not a port such as 22/,
  ],
  [['explain', ...FLAGSHIP, '--node', 'cp-1', '--flow', FLOW, '--flows', 'x'], /cannot be used with/],
  [['agent', '--node', 'cp-1'], /give --manifests/],
  [['agent', '--controller', 'https://c:1', ...FILES], /--controller: needs --node NAME/],
  [['agent', ...FLAGSHIP, '--node', 'cp-1', '--log-level', 'loud'], /Allowed choices/],
  [
    ['agent', ...FLAGSHIP, '--node', 'cp-1', '--feature-gates', 'Other=true'],
    /must be NodeNetworkPolicy=true or/,
  ],
  [
    ['agent', ...FLAGSHIP, '--node', 'cp-1', '--feature-gates', 'NodeNetworkPolicy'],
    /must be NodeNetworkPolicy=true or/,
  ],
  [['agent', ...CLUSTER, ...FLAGSHIP, ...FILES], /give either --manifests or --controller/],
  [['agent', ...CLUSTER], /--controller: needs --token-file/],
  [['agent', ...CLUSTER, '--token-file', 't'], /--controller: needs --ca-file; outside of a pod/],
  [
    ['agent', ...CLUSTER, '--token-file', 't', '--api-server', 'http://a:6443'],
    /--api-server: "http:\/\/a:6443": must be https:\/\/HOST:PORT; without TLS/,
  ],
  [
    ['agent', '--manifests', 'deploy/examples/flagship', '--node', 'n', '--api-server', 'https://a:6443'],
    /--api-server: only with --controller/,
  ],
  [['agent', ...CLUSTER, ...FILES, '--once'], /--once: only with --manifests/],
  [['agent', ...CLUSTER, ...FILES, '--strict'], /--strict: only with --manifests/],
  [['agent', ...FLAGSHIP, '--node', 'n', '--ca-file', 'c'], /--ca-file: only with --controller/],
  [
    ['agent', '--controller', 'http://c:1', '--node', 'n', ...FILES],
    /must be https:\/\/HOST:PORT; without TLS/,
  ],
  [['agent', '--controller', 'c:1', '--node', 'n', ...FILES], /must be https:\/\/HOST:PORT/],
  [['agent', '--controller', 'https://u@c:1/x', '--node', 'n', ...FILES], /must be https:\/\/HOST:PORT/],
  [['agent', ...FLAGSHIP, '--node', 'n', '--metrics-listen', '9412'], /--metrics-listen: "9412": must be/],
  [['controller'], /no cluster is known: neither --kubeconfig, KUBECONFIG nor/],
  [['controller', '--kubeconfig', 'x', '--listen', '8443'], /--listen: "8443": must be HOST:PORT/],
  [['controller', '--kubeconfig', 'x', '--tls-key-file', 'k'], /give both of --tls-cert-file and/],
  [['controller', '--kubeconfig', 'x', '--feature-gates', 'X=true'], /--feature-gates: "X=true": must be/],
  [['dump', 'nothing'], /unknown command/],
  [['dump', 'wire', ...FLAGSHIP], /--node/],
];

describe('wrong usage', function () {
  this.timeout(60_000);
  for (const [args, message] of WRONG) {
    it(`${args.join(' ')} exits with 2 and names the mistake`, async () => {
      const { status, stdout, stderr }: Ended = await hosted(...args);
      assert.match(stderr, message);
      assert.equal(status, 2, stderr);
      assert.equal(stdout, '');
      assert.doesNotMatch(stderr, /\n +at /);
    });
  }

  it('without a command shows the help and exits with 2', async () => {
    const { status, stdout, stderr } = await nodewall();
    assert.match(stdout + stderr, /Usage: nodewall/);
    assert.equal(status, 2);
  });
});
