import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { createServer, request as httpsRequest } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { WallClock } from '../../../lib/process/clock.ts';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import { type FakeKubeApi, fakeKubeApi } from '../../../test/fake/kube-api.ts';
import { KubeError } from '../kube-error.ts';
import { type CertificateAndKey, issueServing, makeAuthority } from './issue.ts';
import { CertificateKeeper, type CertificateSource } from './keeper.ts';

const DAY = 86_400_000;
const SECRET = '/api/v1/namespaces/nodewall-system/secrets/nodewall-ca';
const CONFIG_MAP = '/api/v1/namespaces/nodewall-system/configmaps/nodewall-ca';
const NAMES = ['nodewall-controller.nodewall-system.svc', 'localhost', '127.0.0.1', '::1'];

interface Kept {
  readonly source: CertificateSource;
  readonly failures: Error[];
  serving(): CertificateAndKey;
}

describe('CertificateKeeper', () => {
  let api: FakeKubeApi;
  let time: ReturnType<typeof fakeClock>;
  let sources: CertificateSource[];
  /** The wall clock at time 0; a step changes it. */
  let start: number;

  beforeEach(() => {
    api = fakeKubeApi();
    time = fakeClock();
    sources = [];
    start = Date.now();
  });
  afterEach(() => Promise.all(sources.map((source) => source.close())));

  async function keep(trust: (certificates: string) => Promise<void> = async () => {}): Promise<Kept> {
    const clock: WallClock = { ...time, date: () => new Date(start + time.now()) };
    const failures: Error[] = [];
    let latest: CertificateAndKey | null = null;
    const source = new CertificateKeeper({
      request: api.request,
      namespace: 'nodewall-system',
      name: 'nodewall-ca',
      names: NAMES,
      trust,
      clock,
      events: {
        changed: (certificate) => {
          latest = certificate;
        },
        failed: (error) => void failures.push(error),
      },
    });
    sources.push(source);
    const first = await source.start();
    return { source, failures, serving: () => latest ?? first };
  }

  /** Advances the time, and waits until every source has checked and waits again. */
  async function pass(milliseconds: number): Promise<void> {
    time.pass(milliseconds);
    while (time.waiting().length < sources.length) await new Promise(setImmediate);
  }

  const published = (): string =>
    (api.objects.get(CONFIG_MAP)?.data as Record<string, string> | undefined)?.['ca.crt'] ?? '';

  it('issues certificates that clients with the ConfigMap trust, for every name, and that a running server can replace', async () => {
    const kept = await keep();
    const { certificate: cert, key } = kept.serving();
    const server = createServer({ cert, key }, (_, response) => response.end('here'));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    try {
      for (const name of NAMES) assert.equal(await serial(port, name, published()), serialOf(cert), name);
      await assert.rejects(serial(port, 'example.com', published()), /altnames/);
      await assert.rejects(
        serial(port, 'localhost', (await makeAuthority(new Date())).certificate),
        /unable to verify/,
      );
      time.pass(61 * DAY);
      while (kept.serving().certificate === cert) await new Promise(setImmediate);
      const { certificate: later, key: laterKey } = kept.serving();
      server.setSecureContext({ cert: later, key: laterKey });
      assert.notEqual(serialOf(later), serialOf(cert));
      // The client rejects the new certificate because its validity begins in the future, so the
      // server does present it.
      await assert.rejects(serial(port, 'localhost', published()), /not yet valid/);
    } finally {
      server.close();
    }
  });

  it('shares one CA between replicas that start at the same time', async () => {
    const kept = await Promise.all([keep(), keep(), keep()]);
    const [ca] = certificatesIn(published());
    assert.equal(certificatesIn(published()).length, 1);
    for (const { serving } of kept) assert.ok(ca !== undefined && isBy(serving().certificate, ca));
    assert.equal(
      api.requests.filter(({ method, path }) => method === 'POST' && /secrets$/.test(path)).length,
      3,
    );
  });

  it('stays trusted for six years by clients that read the ConfigMap weekly', async function () {
    this.timeout(60_000);
    const kept = await Promise.all([keep(), keep()]);
    let known = certificatesIn(published());
    const seen = new Set<string>();
    let most = 0;
    for (let day = 0; day < 6 * 365; day += 3.5) {
      await pass(3.5 * DAY);
      if (day % 7 === 0) known = certificatesIn(published());
      most = Math.max(most, known.length);
      const now = start + time.now();
      for (const { serving, failures } of kept) {
        const { certificate } = serving();
        seen.add(serialOf(certificate));
        const isTrusted = known.some((ca) => isBy(certificate, ca) && isValid(ca, now));
        assert.ok(isTrusted && isValid(new X509Certificate(certificate), now), `day ${day}`);
        assert.deepEqual(failures, []);
      }
    }
    // Each replica has a new one about every 60 days, and some more after a change of the CA.
    assert.ok(seen.size >= 70 && seen.size <= 85, `${seen.size} certificates`);
    assert.equal(most, 2);
  });

  it('publishes the CA bundle at every check, and serves if that fails', async () => {
    const told: string[] = [];
    const kept = await keep(async (certificates) => {
      told.push(certificates);
      throw new KubeError('forbidden', { status: 403, reason: 'Forbidden' });
    });
    await pass(600_000);
    assert.deepEqual(told, [published(), published()]);
    assert.equal(kept.failures.length, 2);
    const before = api.requests.filter(({ method }) => method !== 'GET').length;
    await pass(600_000);
    assert.equal(api.requests.filter(({ method }) => method !== 'GET').length, before);
  });

  it('keeps its certificate while the API server is away, and starts when it is back', async () => {
    let isAway = true;
    api.before = () => {
      if (isAway) throw new KubeError('cannot reach the API server', { reason: 'Unreachable' });
    };
    const starting = keep();
    while (time.waiting().length === 0) await new Promise(setImmediate);
    isAway = false;
    time.pass(1_000);
    const kept = await starting;
    assert.equal(kept.failures.length, 1);
    await pass(0);
    isAway = true;
    const { certificate } = kept.serving();
    await pass(89 * DAY);
    assert.equal(kept.serving().certificate, certificate);
    isAway = false;
    await pass(3_600_000);
    assert.notEqual(kept.serving().certificate, certificate);
  });

  it('uses a new CA at once when the Secret was deleted', async () => {
    const kept = await keep();
    const before = kept.serving().certificate;
    await pass(0);
    api.objects.delete(SECRET);
    await pass(600_000);
    const [ca] = certificatesIn(published());
    assert.ok(ca !== undefined && !isBy(before, ca) && isBy(kept.serving().certificate, ca));
  });

  for (const days of [100, 3650]) {
    it(`is valid again after a clock that was ${days} days ahead for a while`, async () => {
      const kept = await keep();
      await pass(0);
      start += days * 86_400_000;
      await pass(600_000);
      start -= days * 86_400_000;
      await pass(600_000);
      const now = new Date(start + time.now());
      const [ca = assert.fail()] = certificatesIn(published());
      const { certificate } = kept.serving();
      assert.ok(isBy(certificate, ca));
      for (const one of [ca, new X509Certificate(certificate)]) assert.ok(one.validFromDate <= now);
    });
  }

  it('does not overwrite a Secret with other content', async () => {
    const data = { 'tls.crt': Buffer.from('mine').toString('base64') };
    api.put(SECRET, { data });
    const starting = keep();
    starting.catch(() => {});
    while (time.waiting().length === 0) await new Promise(setImmediate);
    assert.deepEqual(api.objects.get(SECRET)?.data, data);
    await sources[0]?.close();
    await assert.rejects(starting, /closed before/);
  });

  it('checks again when asked to, at most once a second', async () => {
    const trusted: number[] = [];
    const { source } = await keep(async () => void trusted.push(time.now()));
    const asked = async (count: number, milliseconds: number): Promise<void> => {
      source.checkNow();
      source.checkNow();
      time.pass(milliseconds);
      while (trusted.length < count || time.waiting().length === 0) await new Promise(setImmediate);
    };
    time.pass(5_000);
    await asked(2, 0);
    assert.deepEqual(trusted, [0, 5_000]);
    await asked(2, 999);
    await asked(3, 1);
    assert.deepEqual(trusted, [0, 5_000, 6_000]);
    assert.deepEqual(time.waiting(), [600_000]);
  });

  it('checks in time when the wall clock is stepped back or forward a day, and issues what is valid then', async () => {
    const trusted: number[] = [];
    const { source, serving } = await keep(async () => void trusted.push(time.now()));
    for (const day of [DAY, -DAY]) {
      const { certificate } = serving();
      start += day;
      const checks = trusted.length;
      source.checkNow();
      time.pass(1_000);
      while (trusted.length === checks || time.waiting().length === 0) await new Promise(setImmediate);
      // Forward: still within its life. Back: made by a clock that was ahead only if made since.
      assert.equal(serving().certificate, certificate, `${day}`);
    }
  });

  it('rejects a key that does not fit the CA certificate, and a certificate that is not a CA', async () => {
    const [a, b] = [await makeAuthority(new Date()), await makeAuthority(new Date())];
    const said = 'Secret nodewall-system/nodewall-ca does not hold a CA of nodewall \\(tls\\.';
    await refuses(
      { certificate: a.certificate, key: b.key },
      new RegExp(`${said}key: not the key.*delete it`),
    );
    const serving = await issueServing(a, NAMES, new Date());
    await refuses(serving, new RegExp(`${said}crt: not a CA certificate.*delete it`));
  });

  async function refuses({ certificate, key }: CertificateAndKey, said: RegExp): Promise<void> {
    const encode = (text: string): string => Buffer.from(text).toString('base64');
    api.put(SECRET, { data: { 'tls.crt': encode(certificate), 'tls.key': encode(key) } });
    const failures: Error[] = [];
    const source = new CertificateKeeper({
      request: api.request,
      namespace: 'nodewall-system',
      name: 'nodewall-ca',
      names: NAMES,
      trust: async () => {},
      clock: { ...time, date: () => new Date() },
      events: { changed: () => {}, failed: (error) => void failures.push(error) },
    });
    source.start().catch(() => {});
    while (failures.length === 0) await new Promise(setImmediate);
    assert.match(failures[0]?.message ?? '', said);
    await source.close();
  }
});

describe('issueServing', () => {
  it('expires no later than its CA', async () => {
    const now = new Date();
    const ca = await makeAuthority(new Date(now.getTime() - 700 * DAY));
    const { certificate } = await issueServing(ca, ['localhost'], now);
    const [own, issuer] = [new X509Certificate(certificate), new X509Certificate(ca.certificate)];
    assert.equal(own.validTo, issuer.validTo);
    assert.equal(own.ca, false);
    assert.equal(issuer.ca, true);
  });
});

function certificatesIn(bundle: string): X509Certificate[] {
  const found = bundle.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  return found.map((certificate) => new X509Certificate(certificate));
}

function isBy(certificate: string, ca: X509Certificate): boolean {
  const parsed = new X509Certificate(certificate);
  return parsed.checkIssued(ca) && parsed.verify(ca.publicKey);
}

function isValid({ validFromDate, validToDate }: X509Certificate, now: number): boolean {
  return validFromDate.getTime() <= now && now < validToDate.getTime();
}

function serialOf(certificate: string): string {
  return new X509Certificate(certificate).serialNumber;
}

/**
 * The serial number of the certificate that the server at this port presents to a client that calls
 * it by this name and trusts this CA.
 */
async function serial(port: number, name: string, ca: string): Promise<string> {
  const options = { host: '127.0.0.1', port, ca, agent: false, headers: { host: name } };
  // An address is not allowed as a TLS server name (RFC 6066), so the identity is checked by the
  // address itself.
  const named = /^[\d.:]+$/.test(name) ? { checkServerIdentity: checked(name) } : { servername: name };
  const request = httpsRequest({ ...options, ...named });
  request.end();
  const [response] = await once(request, 'response');
  const { serialNumber } = (response.socket as TLSSocket).getPeerCertificate();
  response.resume();
  return serialNumber;
}

function checked(name: string) {
  return (_: string, { subjectaltname = '' }: { subjectaltname?: string }): Error | undefined => {
    const address = name === '::1' ? '0:0:0:0:0:0:0:1' : name;
    return subjectaltname.split(', ').includes(`IP Address:${address}`) ? undefined : new Error('altnames');
  };
}
