import assert from 'node:assert/strict';
import { frontProxySetting } from './configmap.ts';

describe('frontProxySetting', () => {
  const DATA = {
    'client-ca-file': 'not this one',
    'requestheader-client-ca-file': 'PEM',
    'requestheader-allowed-names': '["front-proxy-client"]',
    'requestheader-username-headers': '["X-Remote-User"]',
    'requestheader-group-headers': '["X-Remote-Group"]',
    'requestheader-extra-headers-prefix': '["X-Remote-Extra-"]',
  };

  it("reads the API server's ConfigMap", () => {
    assert.deepEqual(frontProxySetting(DATA), {
      clientCa: 'PEM',
      allowedNames: ['front-proxy-client'],
      usernameHeaders: ['X-Remote-User'],
      uidHeaders: [],
      groupHeaders: ['X-Remote-Group'],
      extraHeaderPrefixes: ['X-Remote-Extra-'],
    });
  });

  it('reads the uid header if the API server has one', () => {
    const setting = frontProxySetting({ ...DATA, 'requestheader-uid-headers': '["X-Remote-Uid"]' });
    assert.deepEqual(setting?.uidHeaders, ['X-Remote-Uid']);
  });

  it('trusts no front proxy if the ConfigMap is missing or invalid', () => {
    assert.equal(frontProxySetting(null), null);
    assert.equal(frontProxySetting({ 'client-ca-file': 'PEM' }), null);
    for (const wrong of ['front-proxy-client', '[1]', '{}', 'null']) {
      assert.equal(frontProxySetting({ ...DATA, 'requestheader-allowed-names': wrong }), null, wrong);
    }
  });
});
