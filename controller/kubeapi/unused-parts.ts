/**
 * In the place of what the client library's kubeconfig reader imports only for API clients of its
 * own, which nothing here makes (see kube-config.ts): 837 generated modules, and an HTTP client.
 */
class Unused {
  constructor() {
    throw new Error('API clients of @kubernetes/client-node are not loaded; use KubeApi');
  }
}

export {
  Unused as Agent,
  Unused as createConfiguration,
  Unused as ProxyAgent,
  Unused as ServerConfiguration,
};
