/** What each kind of evidence says: why a window counts as covered. */
export const evidenceMeanings = {
  confirmed:
    'it showed ticks on both sides, or other responses of its night showed that the service reaches as far, across as long a silence',
  repeated: 'empty on three nights, each within what other responses showed to be in reach',
  stated: 'the response states that it was cut there',
  declared: 'declared by an import with --covers',
  inferred: 'nothing speaks against it, and nothing shows yet that the service would have returned a tick here',
} as const;
