import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Config, DEFAULT_CONFIG } from '../../apis/config.ts';
import { parseConfig } from '../../apis/config-file.ts';
import type { Endpoints } from '../../apis/stream.ts';
import type { Log } from '../../lib/process/log.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { configuredProbes, flowsOf } from '../guard/probes.ts';
import { ControlPlanePlaces } from './control-plane-places.ts';

describe('the places of the control plane', () => {
  let directory: string;
  let said: string[];
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'nodewall-places-'));
    said = [];
  });
  afterEach(() => rmSync(directory, { recursive: true }));
  const path = (): string => join(directory, 'kubelet.conf');
  const kubeconfig = (server: string): void =>
    writeFileSync(path(), `clusters: [{name: c, cluster: {server: "${server}"}}]`);

  function places(more: { config?: Partial<Config>; kubelet?: Endpoints } = {}): ControlPlanePlaces {
    return new ControlPlanePlaces({
      node: 'n',
      url: new URL('https://nodewall.example:443'),
      apiServer: new URL('https://10.96.0.1'),
      config: { ...DEFAULT_CONFIG, kubeletKubeconfig: path(), ...more.config },
      addresses: ['10.1.0.9'],
      endpoints: [{ port: 6443, addresses: ['10.0.0.2', '10.0.0.1'] }],
      kubelet: more.kubelet ?? null,
      replicas: () => [{ host: '10.0.0.3', port: 8443 }],
      log: {
        warn: (text: string, { error }: { error: string }) => said.push(`${text}: ${error}`),
      } as never as Log,
      changed: () => said.push('changed'),
    });
  }
  const listed = (one: ControlPlanePlaces): string[] =>
    one.entries().map(({ protocol, ports: [port], peers }) => `${protocol} ${port} ${peers}`);

  it('are entries of the failsafe list, by port', () => {
    assert.deepEqual(listed(places()), ['tcp 443 10.1.0.9,10.96.0.1', 'tcp 6443 10.0.0.1,10.0.0.2']);
  });

  it('are the cluster DNS too, by protocol', () => {
    const dns = { port: 5353, addresses: ['10.1.0.8'] };
    const one = places();
    one.setEndpoints([dns, { ...dns, protocol: 'udp' }]);
    assert.deepEqual(listed(one).slice(1), ['tcp 5353 10.1.0.8', 'udp 5353 10.1.0.8']);
  });

  it('are probes, whose packets rules judge by the addresses behind a Service', () => {
    const one = places();
    one.setEndpoints([...one.endpoints, { port: 5353, addresses: ['10.1.0.8'], protocol: 'udp' }]);
    const flows = one.probes().map((probe) => flowsOf(probe).map(({ dst, dstPort }) => `${dst}:${dstPort}`));
    assert.deepEqual(flows, [
      ['10.0.0.2:6443', '10.0.0.1:6443', '10.96.0.1:443'],
      ['10.0.0.3:8443', '10.1.0.9:443'],
    ]);
    const config = { ...DEFAULT_CONFIG, names: { ...DEFAULT_CONFIG.names, servers: ['10.96.0.10'] } };
    const [dns] = configuredProbes(config, one.nameServers());
    assert.deepEqual(
      flowsOf(dns ?? assert.fail()).map(({ dst, dstPort, protocol }) => [dst, dstPort, protocol]),
      [
        ['10.1.0.8', 5353, 'udp'],
        ['10.96.0.10', 53, 'udp'],
      ],
    );
  });

  it('are probed by other agents where this node has them', () => {
    const shown = (...own: string[]) =>
      places()
        .inward(own)
        .map(({ name, from, target }) => [name, from, target]);
    assert.deepEqual(shown('10.0.0.9'), []);
    assert.deepEqual(shown('10.0.0.1'), [['to-api-server', 'peer', { kind: 'tcp', port: 6443 }]]);
    assert.deepEqual(shown('10.0.0.3'), [
      ['to-controller', 'peer', { kind: 'tcp', port: 8443 }],
      ['to-webhook', 'peer', { kind: 'tcp', port: 9443 }],
    ]);
    const config = { controllerPorts: { agents: 8443, webhook: 10250 } };
    const [, webhook] = places({ config }).inward(['10.0.0.3']);
    assert.deepEqual(webhook?.target, { kind: 'tcp', port: 10250 });
  });

  it('are none where the configuration replaces the list', () => {
    const failsafe = { ingress: DEFAULT_CONFIG.failsafe.ingress, egress: [] };
    assert.deepEqual(listed(places({ config: { failsafe } })), []);
    const { config } = parseConfig('controllerPorts: {agents: 10250}', 'c.yaml');
    assert.ok(config !== null);
    assert.equal(listed(places({ config: { ...config, kubeletKubeconfig: path() } })).length, 2);
  });

  it("follow the server of the kubelet's kubeconfig, and keep it when the file is away", async () => {
    const clock = fakeClock();
    const one = places();
    const pass = async (): Promise<void> => {
      clock.pass(60_000);
      for (let i = 0; i < 100 && clock.waiting().length === 0; i++)
        await new Promise((resolve) => setTimeout(resolve, 5));
    };
    kubeconfig('https://10.0.0.100:7443');
    await one.followKubelet(clock);
    assert.deepEqual(said.splice(0), ['changed']);
    assert.equal(listed(one).at(-1), 'tcp 7443 10.0.0.100');
    await pass();
    assert.deepEqual(said, []);
    kubeconfig('https://[2001:db8::1]');
    await pass();
    assert.deepEqual(said.splice(0), ['changed']);
    assert.equal(listed(one)[0], 'tcp 443 10.1.0.9,10.96.0.1,2001:db8::1');
    rmSync(path());
    await pass();
    await pass();
    assert.deepEqual(said, [
      `cannot find the API server of the kubelet's kubeconfig: ${path()}: cannot be read`,
    ]);
    assert.equal(listed(one)[0], 'tcp 443 10.1.0.9,10.96.0.1,2001:db8::1');
    one.close();
    assert.deepEqual(clock.waiting(), []);
  });

  it('remember that server from an earlier run', () => {
    const one = places({ kubelet: { port: 7443, addresses: ['10.0.0.100'] } });
    assert.equal(listed(one).at(-1), 'tcp 7443 10.0.0.100');
  });
});
