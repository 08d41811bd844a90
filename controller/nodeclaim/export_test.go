package nodeclaim

// ClassGrace lets tests start after the grace period.
const ClassGrace = classGrace
