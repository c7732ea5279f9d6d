import assert from 'node:assert/strict';
import { API_SERVICE_TARGET, type RegistrationFacts, registrationAction } from './api-service.ts';

const FACTS: RegistrationFacts = {
  isWanted: true,
  isServing: true,
  isLast: false,
  isStopping: false,
  isNamespaceTerminating: false,
  caBundle: 'ca',
  held: null,
};
const OURS = { service: API_SERVICE_TARGET, caBundle: 'ca' };
const actionOf = (more: Partial<RegistrationFacts>): string => registrationAction({ ...FACTS, ...more });

describe('registrationAction', () => {
  it('registers a missing or different APIService once this replica serves', () => {
    assert.equal(actionOf({}), 'register');
    assert.equal(actionOf({ held: { ...OURS, caBundle: undefined } }), 'register');
    assert.equal(actionOf({ held: { ...OURS, caBundle: 'other' } }), 'register');
    assert.equal(actionOf({ held: { ...OURS, service: { ...API_SERVICE_TARGET, port: 8443 } } }), 'register');
    assert.equal(actionOf({ held: { ...OURS, service: undefined } }), 'register');
    assert.equal(actionOf({ held: OURS }), 'leave');
    assert.equal(actionOf({ isServing: false }), 'leave');
    assert.equal(actionOf({ isStopping: true }), 'leave');
  });

  it('registers none where it is not wanted, and removes what an earlier controller registered', () => {
    assert.equal(actionOf({ isWanted: false }), 'leave');
    assert.equal(actionOf({ isWanted: false, held: undefined }), 'leave');
    assert.equal(actionOf({ isWanted: false, held: OURS }), 'remove');
  });

  it('waits until the current APIService and the CA bundle are known', () => {
    assert.equal(actionOf({ held: undefined }), 'leave');
    assert.equal(actionOf({ caBundle: undefined }), 'leave');
  });

  it('keeps a caBundle that a third party sets', () => {
    assert.equal(actionOf({ caBundle: null }), 'register');
    assert.equal(actionOf({ caBundle: null, held: { ...OURS, caBundle: 'theirs' } }), 'leave');
  });

  it('removes the APIService as the last replica, and when the namespace is deleted', () => {
    for (const facts of [{ isLast: true, isStopping: true }, { isNamespaceTerminating: true }]) {
      assert.equal(actionOf({ ...facts, held: OURS }), 'remove');
      assert.equal(actionOf({ ...facts, held: undefined, isServing: false, caBundle: undefined }), 'remove');
      assert.equal(actionOf({ ...facts, held: null }), 'leave');
    }
  });
});
