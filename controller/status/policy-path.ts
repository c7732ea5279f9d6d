/** API path of the policies whose status the controller writes. */
export const NODEWALL_POLICIES = '/apis/nodewall.io/v1alpha1/clusternetworkpolicies';
