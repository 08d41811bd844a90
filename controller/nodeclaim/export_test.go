package nodeclaim

// ClassGrace lets tests begin after it.
const ClassGrace = classGrace
