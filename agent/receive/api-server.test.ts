import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { GateValue } from '../../apis/stream.ts';
import { createAuthority } from '../../test/cluster/certificates.ts';
import { type FakeClock, fakeClock } from '../../test/fake/fake-clock.ts';
import { ApiServer } from './api-server.ts';

const SYSTEM = '/api/v1/namespaces/nodewall-system';
const API_SERVICE = '/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.controlplane.nodewall.io';

describe('ApiServer', () => {
  let folder: string;
  let server: Server;
  let clock: FakeClock;
  let api: ApiServer;
  /** By path without the query; a number is the status of a refusal, null: no answer. */
  let answers: Record<string, object | string | number | readonly [status: number, text: string] | null>;
  let requests: { line: string; token: string; body: string }[];
  let arrived: () => void;
  const { signal } = new AbortController();

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'nodewall-api-'));
    const authority = await createAuthority('fake API server');
    const { certificate: cert, key } = await authority.issue({
      commonName: 'kube-apiserver',
      names: ['127.0.0.1'],
      usage: 'server',
    });
    writeFileSync(join(folder, 'ca.crt'), authority.certificate);
    writeFileSync(join(folder, 'token'), 'token-1\n');
    server = createServer({ key, cert }, async (request: IncomingMessage, response) => {
      const body = await text(request);
      const { method = '', url = '', headers } = request;
      requests.push({ line: `${method} ${url}`, token: headers.authorization ?? '', body });
      arrived();
      const [path = ''] = url.split('?', 1);
      const answer = Object.hasOwn(answers, path) ? answers[path] : 404;
      if (answer === null) return;
      if (Array.isArray(answer)) {
        response.writeHead(answer[0]).end(answer[1]);
        return;
      }
      const isRefused = typeof answer === 'number';
      response.writeHead(isRefused ? answer : 200, { 'content-type': 'application/json' });
      response.end(
        isRefused ? '{"message":"as it is"}' : typeof answer === 'string' ? answer : JSON.stringify(answer),
      );
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  });
  after(() => {
    server.close();
    server.closeAllConnections();
    rmSync(folder, { recursive: true });
  });
  beforeEach(() => {
    answers = {};
    requests = [];
    arrived = () => {};
    clock = fakeClock();
    const url = new URL(`https://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const files = { tokenFile: join(folder, 'token'), caFile: join(folder, 'ca.crt') };
    api = new ApiServer({ url, ...files }, 'test', clock);
  });

  it('does not say that it removed what another agent did', async () => {
    const status = { conditions: [{ type: 'Available', status: 'False' }] };
    answers[API_SERVICE] = { metadata: { uid: 'u', resourceVersion: '7' }, status };
    arrived = () => {
      if (requests.at(-1)?.line.startsWith('DELETE ')) delete answers[API_SERVICE];
    };
    assert.equal(await api.removeApiService(signal), 'absent');
  });

  it('lists the addresses of pods that run controllers, from the cache, with the token', async () => {
    const pod = (...ips: string[]) => ({ status: { podIPs: ips.map((ip) => ({ ip })) } });
    answers[`${SYSTEM}/pods`] = { items: [pod('fd00::7', '10.1.0.7'), pod('10.1.0.7', 'nonsense'), {}] };
    assert.deepEqual(await api.controllerAddresses(signal), ['10.1.0.7', 'fd00::7']);
    const [{ line, token } = assert.fail()] = requests;
    const query = new URL(line.slice('GET '.length), 'https://x').searchParams;
    assert.deepEqual(Object.fromEntries(query), {
      fieldSelector:
        'spec.serviceAccountName=nodewall-controller,status.phase!=Succeeded,status.phase!=Failed',
      resourceVersion: '0',
    });
    assert.equal(token, 'Bearer token-1');
    assert.deepEqual(clock.waiting(), []);
  });

  it('accepts only true and false for the gate', async () => {
    const said = async (data: unknown): Promise<GateValue> => {
      answers[`${SYSTEM}/configmaps/nodewall-config`] = { data };
      return api.gate(signal);
    };
    assert.equal(await api.gate(signal), 'unset', 'no ConfigMap');
    for (const enabled of [true, false])
      assert.equal(await said({ 'config.yaml': `featureGates: {NodeNetworkPolicy: ${enabled}}` }), enabled);
    for (const text of ['', '{', 'featureGates: {}', 'featureGates: {NodeNetworkPolicy: "false"}', 'x: 1'])
      assert.equal(await said({ 'config.yaml': text }), 'unset', text);
    for (const data of [null, undefined, {}]) assert.equal(await said(data), 'unset');
  });

  it("returns the controllers' CA, '' if there is none", async () => {
    assert.equal(await api.authorities(signal), '');
    answers[`${SYSTEM}/configmaps/nodewall-ca`] = { data: { 'ca.crt': 'PEM' } };
    assert.equal(await api.authorities(signal), 'PEM');
  });

  it('deletes an unavailable APIService, only in the version that was read', async () => {
    const metadata = { uid: 'u', resourceVersion: '7' };
    const available = (status: string) => ({
      metadata,
      status: { conditions: [{ type: 'Available', status }] },
    });
    assert.equal(await api.removeApiService(signal), 'absent');
    answers[API_SERVICE] = available('True');
    assert.equal(await api.removeApiService(signal), 'available');
    assert.ok(requests.every(({ line }) => line.startsWith('GET ')));
    for (const one of [available('Unknown'), { metadata }]) {
      answers[API_SERVICE] = one;
      assert.equal(await api.removeApiService(signal), 'available', 'not known yet');
    }
    for (const one of [available('False')]) {
      answers[API_SERVICE] = one;
      assert.equal(await api.removeApiService(signal), 'removed');
      const last = requests.at(-1);
      assert.equal(last?.line, `DELETE ${API_SERVICE}`);
      assert.deepEqual(JSON.parse(last?.body ?? ''), { preconditions: metadata });
    }
  });

  describe('which policies are deleted', () => {
    const POLICIES = '/apis/nodewall.io/v1alpha1/clusternetworkpolicies';
    const idOf = (policy: string, uid: string) => ({ apiGroup: 'nodewall.io', policy, uid }) as const;
    const absence = (name: string) =>
      JSON.stringify({ kind: 'Status', reason: 'NotFound', details: { name, group: 'nodewall.io' } });
    const KNOWN = [idOf('stays', 's'), idOf('gone', 'g'), idOf('again', 'a')];

    it('says the API server about each that its cached list lacks', async () => {
      answers[POLICIES] = { items: [{ metadata: { uid: 's' } }, { metadata: { uid: 'another' } }] };
      answers[`${POLICIES}/gone`] = [404, absence('gone')];
      answers[`${POLICIES}/again`] = { metadata: { uid: 'another' } };
      assert.deepEqual(await api.deletedPolicies(KNOWN, signal), KNOWN.slice(1));
      assert.deepEqual(
        requests.map(({ line }) => line),
        [`GET ${POLICIES}?resourceVersion=0`, `GET ${POLICIES}/gone`, `GET ${POLICIES}/again`],
      );
    });

    it('is none of a list that is behind', async () => {
      answers[POLICIES] = { items: [] };
      for (const { policy, uid } of KNOWN) answers[`${POLICIES}/${policy}`] = { metadata: { uid } };
      assert.deepEqual(await api.deletedPolicies(KNOWN, signal), []);
    });

    it('is none where the kind is not served, the right is missing, or the answer is about something else', async () => {
      assert.deepEqual(await api.deletedPolicies(KNOWN, signal), [], 'the kind is not served');
      answers[POLICIES] = {};
      assert.deepEqual(await api.deletedPolicies(KNOWN, signal), [], 'not a list');
      answers[POLICIES] = 403;
      await assert.rejects(api.deletedPolicies(KNOWN, signal), /refused \(403/);
      answers[POLICIES] = { items: [] };
      for (const text of ['404 page not found', '{}', absence('other'), absence('')]) {
        answers[`${POLICIES}/stays`] = [404, text];
        await assert.rejects(api.deletedPolicies(KNOWN, signal), /has no clusternetworkpolicies/, text);
      }
    });
  });

  it('reports errors, within ten seconds and eight megabytes', async () => {
    const path = `${SYSTEM}/pods`;
    answers[path] = 403;
    await assert.rejects(api.controllerAddresses(signal), /refused \(403: as it is\).*Role nodewall-agent/);
    answers[path] = 500;
    await assert.rejects(api.controllerAddresses(signal), /refused \(500: as it is\)$/);
    answers[path] = '{';
    await assert.rejects(api.controllerAddresses(signal), /JSON/);
    answers[path] = ' '.repeat(8 * 1024 * 1024 + 1);
    await assert.rejects(api.controllerAddresses(signal), /exceeds 8388608 bytes/);
    answers[path] = null;
    arrived = () => clock.pass(10_000);
    await assert.rejects(api.controllerAddresses(signal), /no answer within 10 s/);
  });
});
